// SummaryWriter against the bytes that PyTorch's writes, and what it says of bad input.

#include "io/summary_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

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

/// The records of an event file, whose checksums must be right.
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

/// An event without its time, which is its first field: a byte of tag and a double.
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

TEST(SummaryWriter, FramesRecordsAsTensorFlowDoes) {
  const std::string record = golden("record_hello");
  std::uint32_t of_length = 0, of_event = 0;
  std::memcpy(&of_length, &record[8], 4);
  std::memcpy(&of_event, &record[12 + 5], 4);
  EXPECT_EQ(masked(io::crc32c(record.data(), 8)), of_length);
  EXPECT_EQ(masked(io::crc32c("hello", 5)), of_event);
  EXPECT_EQ(io::crc32c("123456789", 9), 0xe3069283u);  // RFC 3720's check value
}

TEST(SummaryWriter, WritersToOneFolderHaveTheirOwnFiles) {
  const TemporaryFolder folder;
  const io::SummaryWriter a(folder.path() / "runs" / "x"), b(folder.path() / "runs" / "x");
  EXPECT_NE(a.path(), b.path());
  EXPECT_THAT(a.path().filename().string(), HasSubstr("events.out.tfevents."));
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
               "file is not a folder that may be written to");
  EXPECT_NO_THROW(io::SummaryWriter::check(folder.path() / "new" / "logs"));
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
