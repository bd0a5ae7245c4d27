// safetensors: files that Python's library wrote, round trips, and invalid files.

#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/golden.h"
#include "support/hashed.h"
#include "support/support.h"

namespace rondo {
namespace {

using io::load_safetensors;
using io::save_safetensors;
using ::testing::HasSubstr;

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.is_contiguous() &&
         b.is_contiguous() &&
         (a.numel() == 0 ||
          std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<std::size_t>(a.nbytes())) == 0);
}

io::Safetensors parse(const std::string& bytes) {
  return io::parse_safetensors(std::as_bytes(std::span(bytes)), "memory");
}

/// A file with this header and data.
std::string file_of(const std::string& header, const std::string& data) {
  std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

std::string refusal(const std::string& header, const std::string& data = "") {
  return test::message_of<IoError>([&] { parse(file_of(header, data)); });
}

TEST(Safetensors, ReadsWhatPythonWrote) {
  auto file = parse(test::golden_bytes("safetensors_hex.txt", "file"));
  test::Golden golden("safetensors.txt");
  EXPECT_EQ(file.tensors.size(), 11u);
  for (const auto& [name, tensor] : file.tensors) {
    EXPECT_TRUE(same_bytes(tensor, golden[name])) << name;
  }
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(file.metadata.at("note"), "caf\xc3\xa9 \"quoted\"");
  EXPECT_FALSE(file.verified);
}

TEST(Safetensors, ReadsRealWeights) {
  const char* data = std::getenv("RONDO_DATA");
  std::string path = std::string(data ? data : "") + "/weights/mnist_cnn.safetensors";
  if (!data || !std::filesystem::exists(path)) GTEST_SKIP() << "no weights under $RONDO_DATA";
  auto file = load_safetensors(path);
  ASSERT_FALSE(file.tensors.empty());
  for (const auto& [name, tensor] : file.tensors) {
    for (double v : tensor.to_vector<double>()) ASSERT_TRUE(std::isfinite(v)) << name;
  }
}

TEST(Safetensors, RoundTripsEveryDtypeBitForBit) {
  test::TemporaryFolder folder;
  nn::StateDict tensors;
  std::uint32_t stream = 0;
  for (DType dtype : {boolean, i8, u8, i32, i64, f16, bf16, f32, f64}) {
    for (const Dims& shape : {Dims{}, Dims{0}, Dims{1}, Dims{7}, Dims{3, 0, 2}, Dims{2, 3, 5}}) {
      Tensor x = Tensor::empty(shape, {.dtype = dtype});
      auto* bytes = static_cast<unsigned char*>(x.data_ptr());
      for (std::int64_t i = 0; i < x.nbytes(); ++i) {  // any bits, including NaNs with payloads
        auto byte = static_cast<unsigned char>(
            (test::hashed(stream, 1, static_cast<std::uint32_t>(i)) + 1) * 127.99);
        bytes[i] = dtype == boolean ? byte & 1 : byte;
      }
      tensors.push_back({concat("layer.", dtype, ".", stream++), x});
    }
  }
  std::map<std::string, std::string> metadata{{"empty", ""}, {"text", "a \"b\"\n\\ \xe2\x99\xab"}};
  save_safetensors(folder / "all.safetensors", tensors, metadata);
  EXPECT_EQ(folder.count(), 1);
  auto file = load_safetensors(folder / "all.safetensors");
  EXPECT_TRUE(file.verified);
  EXPECT_EQ(file.metadata, metadata);
  EXPECT_EQ(io::load_safetensors_metadata(folder / "all.safetensors"), metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file.tensors[i].name, tensors[i].name);
    EXPECT_TRUE(same_bytes(file.tensors[i].tensor, tensors[i].tensor)) << tensors[i].name;
  }
}

/// Programs that change a file's tensors often copy its metadata, including rondo's checksum.
/// Python's writer emits compact JSON with its keys in any order.
TEST(Safetensors, WhatAnotherProgramRewroteIsReadUnverified) {
  test::TemporaryFolder folder;
  const Tensor w = test::hashed_tensor(1, 1, {3, 5});
  save_safetensors(folder / "a", {{"w", w}}, {{"k", "v"}});
  const std::string whole = test::read_file(folder / "a");
  const std::size_t digits = whole.find("\"rondo.sha256\":\"") + 16;
  const std::string checksum = "\"rondo.sha256\":\"" + whole.substr(digits, 64) + '"';
  const std::string tensor = R"("w":{"dtype":"F32","shape":[3,5],"data_offsets":[0,60]})";
  const std::string data = whole.substr(whole.size() - 60);
  for (const std::string& metadata : {checksum + R"(,"k":"v")", R"("k":"v",)" + checksum}) {
    const auto file = parse(file_of("{\"__metadata__\":{" + metadata + "}," + tensor + "}", data));
    EXPECT_FALSE(file.verified);
    EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"k", "v"}}));
    EXPECT_TRUE(same_bytes(file.tensors[0].tensor, w));
  }
  // An entry of another program is not a checksum of rondo's.
  const auto foreign = parse(file_of(R"({"__metadata__":{"sha256":"12"},)" + tensor + "}", data));
  EXPECT_EQ(foreign.metadata.at("sha256"), "12");
}

TEST(Safetensors, WritesElementsInRowMajorOrder) {
  test::TemporaryFolder folder;
  Tensor x = test::hashed_tensor(1, 1, {2, 3, 4, 5});
  save_safetensors(folder / "a", {{"nhwc", x.contiguous(MemoryFormat::channels_last)},
                                  {"transposed", x.permute({3, 2, 1, 0})},
                                  {"part", x.narrow(2, 1, 2)},
                                  {"repeated", x.select(0, 0).unsqueeze(0).expand({3, 3, 4, 5})}});
  auto file = load_safetensors(folder / "a").tensors;
  EXPECT_TRUE(same_bytes(file[0].tensor, x));
  EXPECT_TRUE(same_bytes(file[1].tensor, x.permute({3, 2, 1, 0}).contiguous()));
  EXPECT_TRUE(same_bytes(file[2].tensor, x.narrow(2, 1, 2).contiguous()));
  EXPECT_EQ(file[3].tensor.select(0, 2).to_vector(), x.select(0, 0).to_vector());
}

TEST(Safetensors, EmptyFileOfTensors) {
  test::TemporaryFolder folder;
  save_safetensors(folder / "none", {});
  EXPECT_TRUE(load_safetensors(folder / "none").tensors.empty());
  EXPECT_TRUE(parse(file_of("{}", "")).tensors.empty());
  EXPECT_TRUE(parse(file_of("{}      ", "")).tensors.empty());
}

TEST(Safetensors, MissingOrUnreadable) {
  test::TemporaryFolder folder;
  EXPECT_THAT(test::message_of<IoError>([&] { load_safetensors(folder / "none"); }),
              HasSubstr("none: No such file"));
  EXPECT_THAT(test::message_of<IoError>([&] { load_safetensors(folder.path()); }),
              HasSubstr("not a regular file"));
}

TEST(Safetensors, APipeIsRefusedAtOnce) {
  test::TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(test::message_of<IoError>([&] { load_safetensors(path); }),
              HasSubstr("not a regular file"));
}

TEST(Safetensors, ReadsDtypesThatHaveAnExactFormHere) {
  const auto file = parse(test::golden_bytes("safetensors_hex.txt", "foreign_dtypes"));
  const test::Golden golden("torch_files.txt");
  EXPECT_EQ(file.tensors.size(), 10u);
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor expected = golden[name];
    EXPECT_EQ(tensor.dtype(), expected.dtype()) << name;
    EXPECT_EQ(tensor.shape(), expected.shape()) << name;
    const auto x = tensor.to_vector<double>(), y = expected.to_vector<double>();
    EXPECT_TRUE(std::ranges::equal(x, y, [](double u, double v) {
      return std::isnan(u) ? std::isnan(v) : u == v;
    })) << name;
  }
  EXPECT_TRUE(file.left_out.empty());
}

TEST(Safetensors, ATensorThatCannotBeReadIsLeftOut) {
  const auto file =
      parse(file_of(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[17,18]},)"
                    R"("f4":{"dtype":"F4","shape":[3],"data_offsets":[0,3]},)"
                    R"("large":{"dtype":"U64","shape":[1],"data_offsets":[3,11]},)"
                    R"("nine":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[11,12]},)"
                    R"("new":{"dtype":"F6_E2M3","shape":[],"data_offsets":[12,17]}})",
                    std::string(10, 'x') + '\xff' + std::string(7, '\1')));
  ASSERT_EQ(file.tensors.size(), 1u);
  EXPECT_EQ(file.tensors[0].tensor.to_vector(), std::vector<float>{1});
  std::string all;
  for (const auto& [name, why] : file.left_out) all += concat(name, ": ", why, "\n");
  EXPECT_EQ(all,
            "f4: it is of F4, a dtype that rondo lacks\n"
            "large: it is of U64 and has numbers of 2^63 and more, for which rondo has no dtype\n"
            "nine: it has 9 dimensions, but tensors have at most 8 here\n"
            "new: it is of F6_E2M3, a dtype that rondo lacks\n");
}

/// Quadratic work in the size of the file would take minutes.
TEST(Safetensors, AMillionKeysAreReadInTurn) {
  std::string header = "{\"__metadata__\":{\"0\":\"\"";
  for (int i = 1; i < 1'000'000; ++i) header += concat(",\"", i, "\":\"\"");
  header += "}";
  for (int i = 0; i < 20'000; ++i)
    header += concat(",\"w", i, R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  const auto file = parse(file_of(header + "}", ""));
  EXPECT_EQ(file.metadata.size(), 1'000'000u);
  EXPECT_EQ(file.tensors.size(), 20'000u);
}

TEST(Safetensors, TruncationAnywhereIsNoticed) {
  test::TemporaryFolder folder;
  std::string path = folder / "cut";
  save_safetensors(path, {{"w", test::hashed_tensor(1, 1, {3, 5})}, {"b", ones({3})}});
  std::string whole = test::read_file(path);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::string message = test::message_of<IoError>([&] { parse(whole.substr(0, n)); });
    ASSERT_THAT(message, HasSubstr("memory is cut short")) << n << " bytes";
  }
  EXPECT_THAT(test::message_of<IoError>([&] { parse(whole + '\0'); }), HasSubstr("no tensor"));
}

TEST(Safetensors, FlippedBitsAreNoticed) {
  test::TemporaryFolder folder;
  save_safetensors(folder / "a", {{"w", test::hashed_tensor(1, 1, {3, 5})}}, {{"k", "v"}});
  std::string whole = test::read_file(folder / "a");
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 1 << bit);
      bool noticed = true;
      try {
        noticed = !parse(damaged).verified;  // only if the name of the checksum itself is changed
      } catch (const IoError&) {
      }
      ASSERT_TRUE(noticed) << "byte " << byte << ", bit " << bit;
    }
  }
}

TEST(Safetensors, RefusesHeadersThatLie) {
  std::string four(4, '\0');
  std::string w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(refusal("{" + w + "}", four), "");
  EXPECT_THAT(refusal("[]"), HasSubstr("does not begin with {"));
  EXPECT_THAT(refusal("{" + w, four), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{" + w + "} x", four), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{" + w + "," + w + "}", four), HasSubstr("\"w\" appears twice"));
  EXPECT_THAT(
      refusal(R"({"w":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", four),
      HasSubstr("\"dtype\" appears twice"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"C64","shape":[],"data_offsets":[0,4]}})", four),
              HasSubstr("needs 8 bytes"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F4","shape":[8],"data_offsets":[0,4]}})", four),
              HasSubstr("memory holds no tensors that can be read: w: it is of F4, a dtype that "
                        "rondo lacks"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"","shape":[4],"data_offsets":[0,4]}})", four),
              HasSubstr("holds no tensors that can be read"));
  EXPECT_THAT(
      refusal(R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", four),
      HasSubstr("\"shape\" appears twice"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":"1","a":"2"}})"), HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(
      refusal("{" + w + "}" + std::string(3, '\0'), four),
      HasSubstr("memory is not a valid safetensors file: its header has a NUL (at byte 54), "
                "where the format has spaces"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[1]}})", four), HasSubstr("lacks"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four),
              HasSubstr("needs 8 bytes"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four),
              HasSubstr("not a range"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", four),
              HasSubstr("not a range"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four),
              HasSubstr("negative"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", four),
              HasSubstr("fraction"));
  EXPECT_THAT(
      refusal(R"({"w":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
      HasSubstr("beyond 64 bits"));
  EXPECT_THAT(
      refusal(R"({"w":{"dtype":"U8","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})"),
      HasSubstr("beyond 64 bits"));
  EXPECT_THAT(
      refusal(R"({"w":{"dtype":"U8","shape":[18446744073709551615,0],"data_offsets":[0,0]}})"),
      HasSubstr("beyond 64 bits"));
  EXPECT_THAT(
      refusal(R"({"w":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,1]}})", "a"),
      HasSubstr("needs 2 bytes"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":[]}})", four),
              HasSubstr("does not know"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":{},"shape":[1],"data_offsets":[0,4]}})", four),
              HasSubstr("nested"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", four),
              HasSubstr("a list is not allowed"));
  EXPECT_THAT(refusal(R"({"w":null})"), HasSubstr("null"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})"), HasSubstr("a number is not allowed"));
  EXPECT_THAT(refusal(R"({"w":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\x02"),
              HasSubstr("neither 0 nor 1"));
}

TEST(Safetensors, RefusesOverlapsGapsAndHugeHeaders) {
  auto two = [](int b, int e, int b2, int e2) {
    return concat(R"({"a":{"dtype":"U8","shape":[)", e - b, R"(],"data_offsets":[)", b, ",", e,
                  R"(]},"b":{"dtype":"U8","shape":[)", e2 - b2, R"(],"data_offsets":[)", b2, ",",
                  e2, "]}}");
  };
  std::string data(8, 'x');
  EXPECT_EQ(refusal(two(4, 8, 0, 4), data), "");
  EXPECT_THAT(refusal(two(0, 5, 4, 8), data), HasSubstr("overlaps"));
  EXPECT_THAT(refusal(two(0, 3, 4, 8), data), HasSubstr("gap before \"b\""));
  EXPECT_THAT(refusal(two(1, 4, 4, 8), data), HasSubstr("gap before \"a\""));
  EXPECT_THAT(refusal(two(0, 4, 4, 7), data), HasSubstr("1 bytes at its end"));
  EXPECT_THAT(refusal(two(0, 4, 4, 9), data), HasSubstr("cut short"));
  std::string huge = file_of("{}", "");
  huge[5] = 1;
  EXPECT_THAT(test::message_of<IoError>([&] { parse(huge); }), HasSubstr("the format allows"));
}

TEST(Safetensors, WritesNothingWhenItCannot) {
  test::TemporaryFolder folder;
  std::string path = folder / "a";
  save_safetensors(path, {{"w", ones({3})}});
  std::string before = test::read_file(path);
  auto refused = [&](const nn::StateDict& tensors,
                     const std::map<std::string, std::string>& metadata = {}) {
    return test::message_of<IoError>([&] { save_safetensors(path, tensors, metadata); });
  };
  EXPECT_THAT(refused({{"w", ones({1})}, {"w", ones({1})}}), HasSubstr("names two tensors"));
  EXPECT_THAT(refused({{"__metadata__", ones({1})}}), HasSubstr("reserved"));
  EXPECT_THAT(refused({{"w", Tensor()}}), HasSubstr("undefined"));
  EXPECT_THAT(refused({{"\xff", ones({1})}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refused({}, {{"rondo.sha256", "x"}}), HasSubstr("reserved for the checksum"));
  EXPECT_EQ(test::read_file(path), before);
  EXPECT_EQ(folder.count(), 1);
}

}  // namespace
}  // namespace rondo
