// Tensor, its shapes and views, and the allocator below it.

#include "tensor/tensor.h"

#include <cmath>

#include "support/errors.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/allocator.h"

namespace rondo {
namespace {

TEST(Shape, Strides) {
  EXPECT_EQ(strides_of({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(strides_of({2, 3, 4, 5}, MemoryFormat::channels_last), (Dims{60, 1, 15, 3}));
  EXPECT_EQ(strides_of({}), Dims{});
  EXPECT_THROW(strides_of({2, 3}, MemoryFormat::channels_last), ShapeError);
}

TEST(Shape, DenseIgnoresTheStridesOfSizeOne) {
  EXPECT_TRUE(is_dense({1, 3}, {99, 1}, MemoryFormat::contiguous));
  EXPECT_FALSE(is_dense({2, 3}, {99, 1}, MemoryFormat::contiguous));
  EXPECT_TRUE(is_dense({2, 0}, {99, 7}, MemoryFormat::contiguous));
  EXPECT_TRUE(is_dense({4, 8, 1, 1}, {8, 1, 1, 1}, MemoryFormat::channels_last));
}

TEST(Shape, Broadcasting) {
  EXPECT_EQ(broadcast_shapes({3, 1}, {2, 1, 4}), (Dims{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {0, 2}), (Dims{0, 2}));
  EXPECT_EQ(broadcast_strides({3, 1}, {1, 1}, {2, 3, 4}), (Dims{0, 1, 0}));
  EXPECT_THROW(broadcast_shapes({3}, {4}), ShapeError);
  EXPECT_THROW(broadcast_strides({3}, {1}, {4}), ShapeError);
}

TEST(Shape, LimitsAreErrorsWithASentence) {
  EXPECT_THROW((Dims{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_THROW(numel_of({-1}), ShapeError);
  EXPECT_THROW(numel_of({1LL << 40, 1LL << 40}), ShapeError);
  EXPECT_EQ(wrap_dim(-1, 3, "op"), 2);
  EXPECT_EQ(wrap_dim(-1, 0, "op"), 0);
  try {
    wrap_dim(3, 3, "sum");
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "sum: dimension 3 is out of range (valid: -3 to 2)");
  }
}

TEST(Tensor, HandlesShareElements) {
  Tensor x = tensor<float>({1, 2, 3});
  Tensor same = x;
  x.data_ptr<float>()[1] = 9;
  EXPECT_EQ(same.to_vector<float>(), (std::vector<float>{1, 9, 3}));
  EXPECT_TRUE(x.is_same(same));
  EXPECT_FALSE(x.is_same(x.alias()));
}

TEST(Tensor, AccessIsChecked) {
  Tensor x = tensor<float>({1, 2, 3});
  EXPECT_THROW(x.data_ptr<double>(), DTypeError);
  EXPECT_THROW(x.item(), ShapeError);
  EXPECT_THROW(x.size(1), ShapeError);
  EXPECT_THROW(Tensor().shape(), Error);
  EXPECT_THROW(backend(Device::cuda(63)), DeviceError);
  EXPECT_EQ(tensor<std::int64_t>({(1LL << 53) + 1}).item<std::int64_t>(), (1LL << 53) + 1);
  EXPECT_TRUE(tensor<bool>({true}).item<bool>());
}

// x[0] = y would do nothing: it must not compile.
static_assert(std::is_assignable_v<Tensor&, Tensor>);
static_assert(!std::is_assignable_v<Tensor, Tensor>);
// A tensor is not a condition: `if (all(a == b))` would be true for any defined tensor.
static_assert(!std::is_constructible_v<bool, Tensor>);

TEST(Tensor, ViewsShareTheVersion) {
  Tensor x = zeros({2, 3});
  Tensor row = x.as_view({3}, {1}, 3);
  row.bump_version();
  EXPECT_EQ(x.version(), 1u);
  EXPECT_EQ(row.storage_offset(), 3);
}

TEST(Tensor, ToVectorFollowsTheShapeNotTheMemory) {
  Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(x.as_view({3, 2}, {1, 3}, 0).to_vector<float>(),
            (std::vector<float>{1, 4, 2, 5, 3, 6}));
  Tensor last = Tensor::empty({1, 2, 2, 2}, {.format = MemoryFormat::channels_last});
  for (int i = 0; i < 8; ++i) last.data_ptr<float>()[i] = static_cast<float>(i);
  EXPECT_EQ(last.to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(Device, Text) {
  EXPECT_EQ(Device::parse("cuda:3"), Device::cuda(3));
  EXPECT_EQ(Device::parse("cuda").str(), "cuda:0");
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(zeros({2}, {.device = "cpu"}).to("cpu").device(), "cpu");
  for (const char* bad : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "", "cuda:99999"}) {
    EXPECT_THROW(Device::parse(bad), DeviceError) << bad;
  }
}

TEST(FromBlob, ReleasesWhenTheLastViewGoes) {
  std::vector<float> memory{1, 2, 3, 4};
  int released = 0;
  {
    Tensor view;
    {
      Tensor x = from_blob(memory.data(), {2, 2}, f32, [&] { ++released; });
      view = x.as_view({2}, {1}, 2);
    }
    EXPECT_EQ(released, 0);
    view.data_ptr<float>()[0] = 7;
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(memory[2], 7);
}

TEST(CachingAllocator, BlocksComeBack) {
  auto& allocator = cpu::CachingAllocator::instance();
  allocator.empty_cache();
  for (std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{65}, std::size_t{1000003},
                            std::size_t{5} << 20}) {
    void* first = allocator.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    std::memset(first, 1, bytes);
    allocator.deallocate(first, bytes);
    auto before = allocator.stats();
    void* second = allocator.allocate(bytes);
    if (allocator.keeps_blocks()) {
      EXPECT_EQ(first, second);
      EXPECT_EQ(allocator.stats().fresh, before.fresh);
    }
    EXPECT_EQ(allocator.stats().requests, before.requests + 1);
    EXPECT_GE(allocator.stats().in_use, before.in_use + bytes);
    EXPECT_LE(allocator.stats().in_use,
              before.in_use + std::max<std::size_t>(64, bytes + bytes / 4));
    allocator.deallocate(second, bytes);
  }
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().cached, 0u);
}

TEST(CachingAllocator, ImpossibleSizesAreErrors) {
  EXPECT_THROW(Tensor::empty({1LL << 55}), Error);
}

TEST(Storage, NoElementsNoMemory) {
  Tensor x = Tensor::empty({0, 3});
  EXPECT_EQ(x.numel(), 0);
  EXPECT_TRUE(x.to_vector<float>().empty());
}

TEST(Tensor, BytesAreCounted) {
  EXPECT_EQ(bytes_of({3, 5}, f64), 120);
  EXPECT_EQ(bytes_of({1LL << 62, 0}, f64), 0);
  EXPECT_ERROR(Tensor::empty({1LL << 62}), ShapeError, "shape [4611686018427387904] of f32");
  EXPECT_ERROR(Tensor::empty({1LL << 60}, {.dtype = f64}), ShapeError, "more than 2^63 bytes");
  EXPECT_ERROR(from_blob(nullptr, {1LL << 61}, f64), ShapeError, "more than 2^63 bytes");
  EXPECT_ERROR(ones({1}).broadcast_view({1LL << 62}).nbytes(), ShapeError, "more than 2^63 bytes");
  EXPECT_ERROR(Tensor::empty({0, 1LL << 62, 4}), ShapeError, "more than 2^63 elements");
}

TEST(Tensor, NoDimensionsNoSize) {
  EXPECT_ERROR(scalar(1).size(0), ShapeError, "size: a 0-dim tensor has no dimension 0");
  EXPECT_ERROR(scalar(1).stride(-1), ShapeError, "stride: a 0-dim tensor has no dimension -1");
}

TEST(Scalar, ConversionsAreChecked) {
  EXPECT_ERROR(tensor<double>({NAN}).item<std::int64_t>(), Error,
               "the number nan does not fit into i64");
  EXPECT_THROW(tensor<double>({INFINITY}).item<int>(), Error);
  EXPECT_THROW(tensor<double>({0x1p63}).item<std::int64_t>(), Error);
  EXPECT_THROW(tensor<std::int64_t>({1LL << 31}).item<int>(), Error);
  EXPECT_THROW(tensor<std::int64_t>({256}).item<std::uint8_t>(), Error);
  EXPECT_EQ(tensor<double>({-0x1p63}).item<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(tensor<double>({-2.75}).item<int>(), -2);
  EXPECT_EQ(Scalar(255.9).to<std::uint8_t>(), 255);
  const std::size_t three = 3;
  EXPECT_ERROR(full({1}, three - 4, {.dtype = f64}), Error,
               "the number 18446744073709551615 is larger than an i64 can be");
  EXPECT_EQ(Scalar(static_cast<std::uint64_t>(INT64_MAX)).to<std::int64_t>(), INT64_MAX);
  EXPECT_EQ(Scalar(-1).to<std::uint8_t>(), 255);
  EXPECT_THROW(Scalar(-256).to<std::uint8_t>(), Error);
  EXPECT_EQ(Scalar(-128.9).to<std::int8_t>(), -128);
  EXPECT_THROW(Scalar(-129).to<std::int8_t>(), Error);
  EXPECT_TRUE(Scalar(0.5).to<bool>());
  EXPECT_TRUE(std::isnan(tensor<double>({NAN}).item()));
  EXPECT_NO_THROW(Scalar(-INFINITY).check_fits(f16));
  EXPECT_NO_THROW(Scalar(65504).check_fits(f16));
  EXPECT_THROW(Scalar(65505).check_fits(f16), Error);
  EXPECT_THROW(Scalar(1e39).check_fits(bf16), Error);
  EXPECT_THROW(Scalar(1e39).check_fits(f32), Error);
}

TEST(Tensor, ReadingLosesNoInteger) {
  constexpr std::int64_t beyond_f32 = (1 << 24) + 1, beyond_f64 = (std::int64_t{1} << 53) + 1;
  const Tensor a = full({}, beyond_f32, {.dtype = i64}), b = full({}, beyond_f64, {.dtype = i64});
  EXPECT_EQ(a.item(), beyond_f32);
  EXPECT_EQ(b.item<std::int64_t>(), beyond_f64);
  EXPECT_ERROR(b.item(), Error,
               "item: use item<std::int64_t>(); no f64 holds 9007199254740993 exactly");
  EXPECT_ERROR(full({}, INT64_MAX, {.dtype = i64}).item(), Error, "item: use item<std::int64_t>()");
  EXPECT_EQ(full({}, INT64_MIN, {.dtype = i64}).item(), -0x1p63);
  EXPECT_EQ(full({}, 0.1, {.dtype = f64}).item(), 0.1);
  EXPECT_ERROR(a.to_vector(), Error,
               "to_vector: use to_vector<std::int64_t>(); no f32 holds 16777217 exactly");
  EXPECT_EQ(b.to_vector<std::int64_t>(), (std::vector<std::int64_t>{beyond_f64}));
  EXPECT_ERROR(full({2}, 300, {.dtype = i64}).to_vector<std::uint8_t>(), Error, "300");
  EXPECT_ERROR(full({2}, NAN).to_vector<int>(), Error, "nan");
  EXPECT_EQ(full({1}, 2.75).to_vector<int>(), (std::vector<int>{2}));
}

TEST(Shape, PositionsAreCheckedAndMayBeNegative) {
  const Dims shape{2, 3, 4};
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_ERROR(shape[3], ShapeError, "position 3 of [2, 3, 4], which has 3 entries");
  EXPECT_ERROR(shape[-4], ShapeError, "position -4 of [2, 3, 4]");
  EXPECT_ERROR(Dims().back(), ShapeError, "position -1 of []");
  EXPECT_ERROR(Dims().front(), ShapeError, "position 0 of []");
  const auto [a, b, c] = shape.to<3>();
  EXPECT_EQ(100 * a + 10 * b + c, 234);
  EXPECT_ERROR(shape.to<4>(), ShapeError, "[2, 3, 4] has 3 entries; expected 4");
}

// What Python refuses, and C++ would convert.
template <class T>
concept IsIndex = requires(Tensor x, T i) {
  x[i];
};
template <class... A>
concept AreArgumentsOfMean = requires(Tensor x, A... a) {
  x.mean(a...);
};
static_assert(IsIndex<int> && !IsIndex<double> && !IsIndex<bool>);
static_assert(AreArgumentsOfMean<int, bool> && !AreArgumentsOfMean<int, int>);
static_assert(!AreArgumentsOfMean<bool> && !AreArgumentsOfMean<double>);
static_assert(std::is_convertible_v<bool, Scalar> && std::is_convertible_v<unsigned, Scalar>);
static_assert(!std::is_convertible_v<const char*, Scalar> &&
              !std::is_convertible_v<float*, Scalar>);
enum SizeOfEnum { three = 3 };
static_assert(std::is_convertible_v<SizeOfEnum, Dims> && std::is_convertible_v<SizeOfEnum, Scalar>);
static_assert(!std::is_convertible_v<bool, Dims> && !std::is_convertible_v<double, Dims>);

}  // namespace
}  // namespace rondo
