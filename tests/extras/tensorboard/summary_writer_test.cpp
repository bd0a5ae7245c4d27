// SummaryWriter against the bytes of PyTorch's writer, and its errors for bad input.

#include "extras/tensorboard/summary_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <span>

#include "data/image.h"
#include "nn/activation.h"
#include "nn/containers.h"
#include "nn/graph.h"
#include "nn/linear.h"
#include "nn/models/models.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/golden.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

/// The records of an event file, whose checksums must be correct.
std::vector<std::string> records(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> found;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::uint32_t of_length = 0, of_event = 0;
    EXPECT_LE(at + 16, bytes.size());
    std::memcpy(&length, &bytes[at], 8);
    std::memcpy(&of_length, &bytes[at + 8], 4);
    EXPECT_EQ(of_length, masked(io::crc32c(&bytes[at], 8)));
    found.push_back(bytes.substr(at + 12, length));
    std::memcpy(&of_event, &bytes[at + 12 + length], 4);
    EXPECT_EQ(of_event, masked(io::crc32c(found.back().data(), length)));
    at += 16 + length;
  }
  return found;
}

/// An event without its time, which is the first field: a tag byte and a double.
std::string without_time(const std::string& event) {
  EXPECT_EQ(event[0], '\x09');
  return event.substr(9);
}

std::string golden(const std::string& name) { return golden_bytes("tensorboard_hex.txt", name); }

TEST(SummaryWriter, WritesTheBytesOfPyTorchs) {
  const TemporaryFolder folder;
  io::SummaryWriter writer(folder.path(), {.purge_step = 120});
  writer.add_scalar("loss/train", 0.1, 7);
  writer.add_scalar("loss/train", std::nan(""), 0);
  const double infinity = std::numeric_limits<double>::infinity();
  writer.add_histogram(
      "weights/fc",
      tensor<double>({3.0, -2.5, -1e-3, 0.0, infinity, 0.0, 1e-13, 0.25, 0.25, 1e6, std::nan("")}),
      3);
  writer.add_histogram("weights/fc", tensor<float>({0.5f}), 4);
  writer.add_text("notes", "**bold** caf\u00e9", 5);
  const std::vector<std::string> found = records(writer.path());
  const std::vector<std::string> wanted = {"version",   "purge",         "scalar", "scalar_nan",
                                           "histogram", "histogram_one", "text"};
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(without_time(found[i]), golden(wanted[i])) << wanted[i];
}

/// A length-delimited field of a protocol buffer, shorter than 2^14.
std::string field(int number, const std::string& bytes) {
  std::string head(1, static_cast<char>(number << 3 | 2));
  if (bytes.size() >= 128) head += static_cast<char>(bytes.size() % 128 | 128);
  return head + static_cast<char>(bytes.size() >= 128 ? bytes.size() / 128 : bytes.size()) + bytes;
}

/// The event of an image, whose file is `png`.
std::string picture_event(const std::string& png) {
  const std::string image = std::string("\x08\x01\x10\x03\x18\x03", 6) + field(4, png);
  return "\x10\x06" + field(5, field(1, field(1, "pictures") + field(4, image)));
}

std::string png_in(const std::string& event) {
  return event.substr(event.find("\x89PNG"), std::string::npos);
}

std::string pixels_of(const std::string& png) {
  const Tensor image = data::decode_image(std::as_bytes(std::span(png)), "memory");
  return {reinterpret_cast<const char*>(image.data_ptr<std::uint8_t>()),
          static_cast<std::size_t>(image.numel())};
}

TEST(SummaryWriter, PicturesAreThoseOfPyTorch) {
  if (!data::has_image_decoders()) GTEST_SKIP() << "built without libjpeg and libpng";
  const TemporaryFolder folder;
  io::SummaryWriter writer(folder.path());
  const Tensor picture = tensor<float>({0, .25f, 1, .999f, .5f, 1.5f, -.5f, .75f, .1f});
  writer.add_image("pictures", picture.view({3, 1, 3}), 6);
  Tensor nine = empty({9, 3, 1, 2}, {.dtype = u8});
  for (int i = 0; i < 54; ++i) nine.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  writer.add_images("grid", nine, 0);
  writer.add_image("grey", ones({2, 2}), 0);
  const std::vector<std::string> found = records(writer.path());
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(picture_event("PNG"), golden("image"));
  const std::string png = png_in(found[1]);
  EXPECT_EQ(without_time(found[1]), picture_event(png));
  EXPECT_EQ(pixels_of(png), golden("image_pixels"));
  EXPECT_EQ(pixels_of(png_in(found[2])), golden("grid_pixels"));
  EXPECT_EQ(pixels_of(png_in(found[3])), std::string(12, '\xff'));
}

TEST(SummaryWriter, RefusesWhatIsNoPicture) {
  const TemporaryFolder folder;
  io::SummaryWriter writer(folder.path());
  EXPECT_ERROR(writer.add_image("p", zeros({2, 4, 4}), 0), ShapeError, "image p is [2, 4, 4]");
  EXPECT_ERROR(writer.add_image("p", zeros({4, 4}, {.dtype = i32}), 0), DTypeError, "p is i32");
  EXPECT_ERROR(writer.add_image("p", full({4, 4}, std::nan("")), 0), Error, "p has NaN in it");
  EXPECT_ERROR(writer.add_images("p", zeros({3, 4, 4}), 0), ShapeError, "images p are [3, 4, 4]");
  EXPECT_ERROR(writer.add_image("", zeros({4, 4}), 0), Error, "the tag is empty");
  EXPECT_EQ(records(writer.path()).size(), 1U);
}

TEST(SummaryWriter, FramesRecordsAsTensorFlowDoes) {
  const std::string record = golden("record_hello");
  std::uint32_t of_length = 0, of_event = 0;
  std::memcpy(&of_length, &record[8], 4);
  std::memcpy(&of_event, &record[12 + 5], 4);
  EXPECT_EQ(masked(io::crc32c(record.data(), 8)), of_length);
  EXPECT_EQ(masked(io::crc32c("hello", 5)), of_event);
  EXPECT_EQ(io::crc32c("123456789", 9), 0xe3069283u);  // the check value of RFC 3720
}

TEST(SummaryWriter, WritersToOneFolderHaveTheirOwnFiles) {
  const TemporaryFolder folder;
  const io::SummaryWriter a(folder.path() / "runs" / "x"), b(folder.path() / "runs" / "x");
  EXPECT_NE(a.path(), b.path());
  EXPECT_THAT(std::filesystem::path(a.path()).filename().string(),
              HasSubstr("events.out.tfevents."));
}

// Others can guess the name of an event file: the second, the machine, the process, a number.
TEST(SummaryWriter, APlantedLinkIsNotFollowed) {
  const TemporaryFolder folder;
  write_file(folder / "victim", "mine");
  const std::string path = io::SummaryWriter(folder.path()).path(),
                    name = std::filesystem::path(path).filename(), head = "events.out.tfevents.";
  const std::size_t middle = name.find('.', head.size()), end = name.rfind('.') + 1;
  const std::int64_t second = std::stoll(name.substr(head.size())),
                     number = std::stoll(name.substr(end));
  for (std::int64_t later = 0; later < 60; ++later)
    std::filesystem::create_symlink(
        folder / "victim",
        folder / concat(head, second + later, name.substr(middle, end - middle), number + 1));
  EXPECT_ERROR(io::SummaryWriter(folder.path()), IoError, "cannot be written: File exists");
  EXPECT_EQ(read_file(folder / "victim"), "mine");
}

TEST(SummaryWriter, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  io::SummaryWriter writer(folder.path());
  EXPECT_ERROR(writer.add_scalar("", 1, 0), Error, "the tag is empty");
  EXPECT_ERROR(writer.add_histogram("w", empty({0}), 0), Error,
               "histogram w of no finite elements");
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_ERROR(io::SummaryWriter(folder.path() / "file" / "logs"), IoError, "file/logs");
  EXPECT_ERROR(io::SummaryWriter::check(folder.path() / "file" / "logs"), IoError,
               "file is not a writable folder");
  EXPECT_NO_THROW(io::SummaryWriter::check(folder.path() / "new" / "logs"));
}

// TensorBoard refuses a whole file for one tag with other bytes than UTF-8.
TEST(SummaryWriter, ATagIsUtf8) {
  const TemporaryFolder folder;
  io::SummaryWriter writer(folder.path());
  writer.add_scalar("loss\xff", 1, 0);
  writer.flush();
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    const std::string bytes = read_file(file.path());
    EXPECT_NE(bytes.find("loss"), std::string::npos);
    EXPECT_EQ(bytes.find("loss\xff"), std::string::npos);
  }
}

TEST(Graph, HasEachOpInItsModulesScope) {
  nn::Sequential model;
  model.push_back(nn::Linear(4, 3));
  model.push_back(nn::ReLU());
  model.push_back(nn::Linear(3, 2));
  model.train();
  const auto graph = nn::graph_of(model, zeros({5, 4}));
  EXPECT_TRUE(model.is_training());
  std::vector<std::string> names;
  for (const nn::GraphNode& node : graph) names.push_back(node.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("input", "0.weight", "0.bias", "0.linear",
                                                     "1.relu", "2.weight", "2.bias", "2.linear"));
  EXPECT_EQ(names.back(), "2.linear");
  EXPECT_THAT(graph.back().shapes, ElementsAre(Dims{5, 2}));
  EXPECT_EQ(graph.back().inputs.front(), "1.relu");
}

TEST(Graph, OfAResNetIsOneWholeWithEveryParameter) {
  nn::AnyModule model = nn::make_model("resnet20", {});
  std::set<std::string> known;
  for (const nn::GraphNode& node : nn::graph_of(model, zeros({1, 3, 32, 32}))) {
    for (const std::string& input : node.inputs) EXPECT_TRUE(known.contains(input)) << input;
    EXPECT_TRUE(known.insert(node.name).second) << node.name;
  }
  for (const auto& [name, p] : model.named_parameters()) EXPECT_TRUE(known.contains(name)) << name;
}

}  // namespace
}  // namespace rondo::test
