// Files that the library itself writes here, in all types and layouts, and errors.

#include "extras/hdf5/hdf5.h"

#include <gmock/gmock.h>
#include <hdf5.h>

#include <numeric>

#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

using testing::HasSubstr;

class Hdf5 : public testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_ / "data.h5";
    file_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(file_, 0);
  }
  void TearDown() override { close(); }
  void close() {
    if (file_ >= 0) H5Fclose(file_);
    file_ = -1;
  }
  /// Writes `data` of `in_memory` as a data set of `in_file`.
  void write(const std::string& name, hid_t in_file, hid_t in_memory, const void* data,
             const std::vector<hsize_t>& sizes, hid_t created = H5P_DEFAULT) {
    const hid_t space =
        sizes.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t set = H5Dcreate2(file_, name.c_str(), in_file, space, links, created, H5P_DEFAULT);
    ASSERT_GE(set, 0) << name;
    if (data != nullptr) {
      ASSERT_GE(H5Dwrite(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
    }
    H5Dclose(set);
    H5Pclose(links);
    H5Sclose(space);
  }

  test::TemporaryFolder folder_;
  std::string path_;
  hid_t file_ = -1;
};

TEST_F(Hdf5, EachTypeHasItsDtype) {
  const std::vector<std::int64_t> numbers = {1, 0, 100};
  const std::vector<std::tuple<std::string, hid_t, DType>> types = {
      {"i8", H5T_STD_I8LE, i8},     {"u8", H5T_STD_U8LE, u8},    {"i16", H5T_STD_I16BE, i32},
      {"u16", H5T_STD_U16LE, i32},  {"i32", H5T_STD_I32BE, i32}, {"u32", H5T_STD_U32LE, i64},
      {"i64", H5T_STD_I64LE, i64},  {"u64", H5T_STD_U64BE, i64}, {"f32", H5T_IEEE_F32BE, f32},
      {"f64", H5T_IEEE_F64LE, f64},
  };
  for (const auto& [name, type, dtype] : types)
    write("group/" + name, type, H5T_NATIVE_INT64, numbers.data(), {3});
  close();
  for (const auto& [name, type, dtype] : types) {
    const Tensor x = io::load_hdf5(path_, "/group/" + name);
    EXPECT_EQ(x.dtype(), dtype) << name;
    EXPECT_EQ(x.to(i64).to_vector<std::int64_t>(), numbers) << name;
  }
}

TEST_F(Hdf5, HalvesBoolsAndScalars) {
  const Tensor half = tensor<double>({0.5, -2, 65504}).to(f16), brain = half.to(bf16);
  const hid_t f16_type = H5Tcopy(H5T_IEEE_F32LE), bf16_type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(f16_type, 15, 10, 5, 0, 10);
  H5Tset_size(f16_type, 2);
  H5Tset_ebias(f16_type, 15);
  H5Tset_fields(bf16_type, 15, 7, 8, 0, 7);
  H5Tset_size(bf16_type, 2);
  write("half", f16_type, f16_type, half.data_ptr(), {3});
  write("brain", bf16_type, bf16_type, brain.data_ptr(), {3});
  const hid_t truth = H5Tenum_create(H5T_NATIVE_INT8);
  std::int8_t value = 0;
  H5Tenum_insert(truth, "FALSE", &value);
  value = 1;
  H5Tenum_insert(truth, "TRUE", &value);
  const std::array<std::int8_t, 2> bools = {0, 1};
  write("bools", truth, truth, bools.data(), {2});
  const double number = 2.5;
  write("scalar", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &number, {});
  write("empty", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, nullptr, {0, 3});
  for (const hid_t type : {f16_type, bf16_type, truth}) H5Tclose(type);
  close();
  EXPECT_TRUE(test::identical(io::load_hdf5(path_, "half"), half));
  EXPECT_TRUE(test::identical(io::load_hdf5(path_, "brain"), brain));
  EXPECT_TRUE(test::identical(io::load_hdf5(path_, "bools"), tensor<bool>({false, true})));
  EXPECT_EQ(io::load_hdf5(path_, "scalar").shape(), Dims{});
  EXPECT_EQ(io::load_hdf5(path_, "scalar").item(), 2.5);
  EXPECT_EQ(io::load_hdf5(path_, "empty").shape(), (Dims{0, 3}));
}

TEST_F(Hdf5, ChunkedAndCompressedDataAreUnpacked) {
  std::vector<float> numbers(20 * 30);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const hid_t created = H5Pcreate(H5P_DATASET_CREATE);
  const std::array<hsize_t, 2> chunk = {7, 8};
  H5Pset_chunk(created, 2, chunk.data());
  H5Pset_shuffle(created);
  H5Pset_deflate(created, 6);
  write("x", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, numbers.data(), {20, 30}, created);
  H5Pclose(created);
  close();
  const Tensor x = io::load_hdf5(path_, "x");
  EXPECT_EQ(x.shape(), (Dims{20, 30}));
  EXPECT_EQ(x.to_vector<float>(), numbers);
}

TEST_F(Hdf5, AFileOfSeveral) {
  const std::array<double, 2> numbers = {1, 2};
  write("b/y", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, numbers.data(), {2});
  write("a", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, numbers.data(), {2});
  H5Lcreate_soft("/a", file_, "same", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("other.h5", "/x", file_, "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 4);
  write("text", text, text, "abc", {});
  H5Tclose(text);
  const std::uint64_t large = std::uint64_t{1} << 63;
  write("large", H5T_STD_U64LE, H5T_NATIVE_UINT64, &large, {1});
  const hid_t created = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(created, "/etc/passwd", 0, 16);
  write("external", H5T_STD_U8LE, H5T_NATIVE_UINT8, nullptr, {16}, created);
  H5Pclose(created);
  const std::vector<hsize_t> nine(9, 1);
  write("nine", H5T_STD_U8LE, H5T_NATIVE_UINT8, nullptr, nine);
  close();
  const io::Hdf5File file = io::load_hdf5(path_);
  std::vector<std::string> names, left_out;
  for (const auto& entry : file.tensors) names.push_back(entry.name);
  for (const auto& entry : file.left_out) left_out.push_back(entry.name);
  EXPECT_THAT(names, testing::ElementsAre("a", "b/y"));
  EXPECT_THAT(left_out,
              testing::ElementsAre("elsewhere", "external", "large", "nine", "same", "text"));
  EXPECT_EQ(file.left_out[0].why, "is in another file");
  EXPECT_EQ(file.left_out[4].why, "is a soft link, to another name in the file");
  EXPECT_EQ(file.left_out[1].why, "its data are in another file");
  EXPECT_ERROR(io::load_hdf5(path_, "large"), IoError, "large cannot be a tensor: it has numbers");
  EXPECT_ERROR(io::load_hdf5(path_, "text"), IoError, "its elements are not numbers of a dtype");
  EXPECT_ERROR(io::load_hdf5(path_, "same"), IoError,
               "has no data set same; it has a, b/y, external, large, nine, …");
}

TEST_F(Hdf5, BadFiles) {
  EXPECT_ERROR(io::load_hdf5("/nowhere.h5"), IoError, "/nowhere.h5: no such file");
  EXPECT_ERROR(io::load_hdf5(folder_.path().string()), IoError, "not a file");
  std::vector<float> numbers(1000);
  write("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, numbers.data(), {1000});
  const hid_t created = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = 1;
  H5Pset_chunk(created, 1, &chunk);
  write("huge", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, nullptr, {hsize_t{1} << 40}, created);
  H5Pclose(created);
  close();
  EXPECT_ERROR(io::load_hdf5(path_, "huge"), IoError,
               "data.h5: huge claims more bytes than the file can hold");
  const std::string bytes = test::read_file(path_);
  test::write_file(folder_ / "cut.h5", bytes.substr(0, bytes.size() / 2));
  EXPECT_ERROR(io::load_hdf5(folder_ / "cut.h5", "x"), IoError, "cut.h5: cannot be opened (");
  test::write_file(folder_ / "text.h5", "not a file of numbers");
  EXPECT_ERROR(io::load_hdf5(folder_ / "text.h5"), IoError, "text.h5: is not an HDF5 file");
}

/// A filter that the library knows when the file is written, and no longer when it is read.
TEST_F(Hdf5, AnUnknownFilterLeavesOneDataSetOut) {
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS,
                               300,
                               1,
                               1,
                               "odd",
                               nullptr,
                               nullptr,
                               [](unsigned, std::size_t, const unsigned*, std::size_t bytes,
                                  std::size_t*, void**) { return bytes; }};
  ASSERT_GE(H5Zregister(&filter), 0);
  const std::vector<float> numbers = {1, 2, 3};
  const hid_t created = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = 3;
  H5Pset_chunk(created, 1, &chunk);
  ASSERT_GE(H5Pset_filter(created, 300, 0, 0, nullptr), 0);
  write("odd", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, numbers.data(), {3}, created);
  write("plain", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, numbers.data(), {3});
  H5Pclose(created);
  close();
  ASSERT_GE(H5Zunregister(300), 0);
  const io::Hdf5File file = io::load_hdf5(path_);
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(file.tensors[0].name, "plain");
  ASSERT_EQ(file.left_out.size(), 1U);
  EXPECT_THAT(file.left_out[0].why, testing::HasSubstr("the filter 300 (odd)"));
}

}  // namespace
}  // namespace rondo
