// Files that NumPy wrote, files that it would write, and invalid ones.

#include "io/npy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "support/errors.h"
#include "support/files.h"
#include "support/golden.h"
#include "support/mutilate.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::message_of;
using ::testing::HasSubstr;

std::string numpy_bytes(const std::string& name) {
  return test::golden_bytes("numpy_hex.txt", name);
}

Tensor parse_numpy(const std::string& bytes) {
  return io::parse_npy(std::as_bytes(std::span(bytes)), "memory");
}

/// A file of version 1 with this header.
std::string npy_of(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xff) +
         static_cast<char>(header.size() >> 8) + header + data;
}

std::string npy_refusal(const std::string& header, const std::string& data = "") {
  return message_of<IoError>([&] { parse_numpy(npy_of(header, data)); });
}

TEST(Npy, ReadsEachDtypeInBothOrders) {
  const std::vector<std::pair<std::string, DType>> types{
      {"f8", f64}, {"f4", f32},     {"f2", f16}, {"i8", i64}, {"i4", i32},
      {"i2", i32}, {"i1", i8},      {"u1", u8},  {"u2", i32}, {"u4", i64},
      {"u8", i64}, {"b1", boolean}, {"c8", f32}, {"c16", f64}};
  for (const auto& [name, dtype] : types) {
    for (const char* order : {"", ".fortran", ".big"}) {
      const Tensor x = parse_numpy(numpy_bytes(name + order));
      const bool pairs = name[0] == 'c';
      EXPECT_EQ(x.shape(), pairs ? (Dims{2, 3, 2}) : (Dims{2, 3})) << name << order;
      EXPECT_EQ(x.dtype(), dtype) << name << order;
      EXPECT_TRUE(x.is_contiguous());
      std::vector<double> wanted;
      for (int i = 0; i < 6; ++i) {
        wanted.push_back(dtype == boolean ? i % 2 : i);
        if (pairs) wanted.push_back(-i);
      }
      EXPECT_EQ(x.to_vector<double>(), wanted) << name << order;
    }
  }
}

TEST(Npy, ReadsEachShapeAndVersion) {
  EXPECT_EQ(parse_numpy(numpy_bytes("scalar")).shape(), Dims{});
  EXPECT_EQ(parse_numpy(numpy_bytes("scalar")).item(), 2.5);
  EXPECT_EQ(parse_numpy(numpy_bytes("vector")).to_vector<int>(),
            (std::vector{12342, 12343, 12344}));
  EXPECT_EQ(parse_numpy(numpy_bytes("empty")).shape(), (Dims{0, 3}));
  const Tensor three = parse_numpy(numpy_bytes("three"));
  EXPECT_EQ(three.shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(three.to_vector<float>(), arange(24).to(f32).to_vector<float>());
  for (const char* version : {"version2", "version3"})
    EXPECT_EQ(parse_numpy(numpy_bytes(version)).to_vector<float>(),
              (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(Npy, SizesOfPython2) {
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 1L), }\n";
  EXPECT_EQ(parse_numpy(npy_of(header, "ab")).shape(), (Dims{2, 1}));
}

TEST(Npy, WritesWhatNumPyWrites) {
  const test::TemporaryFolder folder;
  const auto written = [&](const Tensor& x) {
    io::save_npy(folder / "x.npy", x);
    return test::read_file(folder / "x.npy");
  };
  const Tensor x = arange(6).reshape({2, 3});
  const std::vector<std::pair<const char*, DType>> types{
      {"f8", f64}, {"f4", f32}, {"f2", f16}, {"i8", i64}, {"i4", i32}, {"u1", u8}, {"i1", i8}};
  for (const auto& [name, dtype] : types)
    EXPECT_EQ(written(x.to(dtype)), numpy_bytes(name)) << name;
  const Tensor odd = tensor<std::int64_t>({0, 1, 0, 1, 0, 1}, {2, 3});
  EXPECT_EQ(written(odd.to(boolean)), numpy_bytes("b1"));
  EXPECT_EQ(written(scalar(2.5, {.dtype = f64})), numpy_bytes("scalar"));
  EXPECT_EQ(written(arange(12342, 12345).to(i32)), numpy_bytes("vector"));
  EXPECT_EQ(written(zeros({0, 3})), numpy_bytes("empty"));
  // A view is written in row-major order.
  const Tensor view = x.to(f32).permute({1, 0});
  io::save_npy(folder / "view.npy", view);
  EXPECT_EQ(io::load_npy(folder / "view.npy").to_vector<float>(),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_THAT(message_of<DTypeError>([&] { written(x.to(bf16)); }), HasSubstr("convert"));
  EXPECT_THROW(io::save_npy(folder / "no" / "x.npy", x), IoError);
  EXPECT_THROW(io::save_npy(folder / "x.npy", {}), Error);
}

TEST(Npy, ReadsArchives) {
  const test::TemporaryFolder folder;
  for (const char* name : {"npz", "npz_compressed"}) {
    test::write_file(folder / name, numpy_bytes(name));
    const nn::StateDict arrays = io::load_npz(folder / name);
    ASSERT_EQ(arrays.size(), 2U);
    EXPECT_EQ(arrays[0].name, "x");
    EXPECT_EQ(arrays[0].tensor.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(arrays[1].name, "layer.0");
    EXPECT_EQ(arrays[1].tensor.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
    std::string damaged = numpy_bytes(name);
    damaged.resize(damaged.size() / 2);
    test::write_file(folder / name, damaged);
    EXPECT_THROW(io::load_npz(folder / name), IoError);
  }
  test::write_file(folder / "x.npy", numpy_bytes("f4"));
  EXPECT_THROW(io::load_npz(folder / "x.npy"), IoError);
  EXPECT_THROW(io::load_npz(folder / "none"), IoError);
  EXPECT_THROW(io::load_npy(folder / "none"), IoError);
}

TEST(Npy, RefusesOtherDtypes) {
  const auto message = [](const char* name) {
    return message_of<IoError>([&] { parse_numpy(numpy_bytes(name)); });
  };
  EXPECT_THAT(message("struct"), HasSubstr("memory: is an array of structs"));
  EXPECT_THAT(message("text"), HasSubstr("has dtype '<U2'; rondo reads"));
  EXPECT_THAT(message("date"), HasSubstr("has dtype '<M8[D]'"));
  EXPECT_THAT(message("long_double"), HasSubstr("has dtype '<f16'"));
  EXPECT_THAT(message("too_large"), HasSubstr("a value that i64 cannot represent"));
  EXPECT_THAT(npy_refusal("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("has dtype '|O'"));
}

TEST(Npy, RefusesInvalidFiles) {
  const std::string whole = numpy_bytes("f4");
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THROW(parse_numpy(whole.substr(0, n)), IoError) << n;
  EXPECT_THROW(parse_numpy(whole + "x"), IoError);
  EXPECT_THAT(message_of<IoError>([&] { parse_numpy(whole.substr(0, whole.size() - 1)); }),
              HasSubstr("has 23 bytes of data, but shape [2, 3] of <f4"));
  const auto shaped = [](const std::string& shape) {
    return npy_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }");
  };
  EXPECT_THAT(shaped("(1000000000000,)"), HasSubstr("does not have this size"));
  EXPECT_THAT(shaped("(4611686018427387904, 4)"), HasSubstr("does not have this size"));
  EXPECT_THAT(shaped("(0, 9223372036854775807, 9223372036854775807)"),
              HasSubstr("does not have this size"));
  EXPECT_THAT(shaped("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(npy_refusal("{'descr': '<c8', 'fortran_order': False, "
                          "'shape': (1, 1, 1, 1, 1, 1, 1, 1)}",
                          "01234567"),
              HasSubstr("8 dimensions of complex numbers"));
  for (const char* shape : {"(-1,)", "(2 3)", "(x,)", "(99999999999999999999,)", "3", "(3"})
    EXPECT_THAT(shaped(shape), HasSubstr("not that of a NumPy array")) << shape;
  for (const char* header :
       {"", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'shape': (), 'fortran_order': Perhaps}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "{'other': 'x'}"})
    EXPECT_THAT(npy_refusal(header), HasSubstr("not that of a NumPy array")) << header;
  EXPECT_THAT(npy_refusal("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\2"),
              HasSubstr("neither 0 nor 1"));
  std::string version = whole;
  version[6] = 9;
  EXPECT_THAT(message_of<IoError>([&] { parse_numpy(version); }), HasSubstr("version 9.0"));
}

TEST(Npy, AnotherKindOfFileIsNotDamaged) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const auto& read, const std::string& bytes) {
    test::write_file(folder / "file", bytes);
    return message_of<IoError>([&] { read(folder / "file"); });
  };
  EXPECT_THAT(refusal(io::load_npz, "some notes"),
              HasSubstr("/file: is not a .npz file; it does not begin with PK"));
  EXPECT_THAT(refusal(io::load_npz, ""), HasSubstr("/file: is not a .npz file"));
  EXPECT_THAT(refusal(io::load_npz, numpy_bytes("f4")), HasSubstr("(a .npy file, which load_npy"));
  EXPECT_THAT(refusal(io::load_npy, "PK\3\4 and so on"), HasSubstr("(a .npz file, which load_npz"));
  EXPECT_THAT(refusal(io::load_npz, "PK\3\4 and so on"), HasSubstr("cut short or damaged"));
}

TEST(Npy, MutilatedFilesGiveTensorsOrErrors) {
  test::Dice dice;
  const std::vector<std::string> words{"(",    ")", "{", "}", "'", ",", "True", "'descr': '>c16'",
                                       "99999"};
  const std::vector<std::string> names{"f4", "c16.big", "u4.fortran", "three", "version2"};
  for (long i = 0; i < test::fuzz_iterations(2000); ++i) {
    const std::string bytes =
        test::mutilate(numpy_bytes(names[dice.below(names.size())]), dice, words);
    try {
      EXPECT_TRUE(parse_numpy(bytes).defined());
    } catch (const IoError&) {
    }
  }
}

}  // namespace
}  // namespace rondo
