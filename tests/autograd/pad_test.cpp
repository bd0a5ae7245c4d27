// pad against PyTorch (tests/golden/make_padding.py), and its errors.

#include "autograd/ops/pad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/trace.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

TEST(Padding, AgreesWithPyTorch) {
  const Golden golden("padding.txt");
  const std::pair<std::string, PadMode> modes[] = {{"constant", PadMode::constant},
                                                   {"reflect", PadMode::reflect},
                                                   {"replicate", PadMode::replicate},
                                                   {"circular", PadMode::circular}};
  for (const auto& [name, mode] : modes) {
    const auto check = [&, &name = name, mode = mode](const char* dims, const Dims& padding) {
      expect_case(
          golden, name + dims, [&](X x) { return pad(x[0], padding, mode); }, 12);
    };
    check(".1d", {3, -1});
    check(".2d", {2, 4, -1, 3});
    check(".3d", {1, 2, 0, 1, 2, 0});
    check(".unbatched", {1, 2});
  }
  for (const char* name : {"constant", "reflect", "replicate", "circular"})
    expect_case(
        golden, concat(name, ".1d"),
        [&](X x) {
          return pad(x[0], {3, -1}, name);
        },
        12);
  expect_case(golden, "constant.value", [](X x) {
    return pad(x[0], {1, 0, 2, -3, 0, 1, 1, 1}, PadMode::constant, 1.5);
  });
  expect_case(golden, "constant.empty", [](X x) { return pad(x[0], {-5, 2}); });
}

TEST(Padding, KeepsTheDtypeAndCopies) {
  const Tensor x = arange(3, {.dtype = i64}).reshape({1, 3});
  EXPECT_TRUE(identical(pad(x, {1, 1}, PadMode::constant, 7),
                        tensor<std::int64_t>({7, 0, 1, 2, 7}, {1, 5})));
  EXPECT_TRUE(
      identical(pad(x, {1, 1}, PadMode::circular), tensor<std::int64_t>({2, 0, 1, 2, 0}, {1, 5})));
  for (const Dims& padding : {Dims{0, 0}, Dims{-1, 0}, Dims{0, -1}})
    for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::circular}) {
      const Tensor y = pad(x, padding, mode), before = y.clone();
      x.add_(1);
      EXPECT_TRUE(identical(y, before)) << padding;
      const TraceMode trace;
      const Tensor traced = pad(x, padding, mode);
      EXPECT_NE(traced.storage().get(), x.storage().get()) << padding;
    }
}

TEST(Padding, CopiesBitsAndSkipsWhatIsRemoved) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor<float>({inf, 1, 2, NAN}, {1, 4}).requires_grad_();
  const Tensor y = pad(x, {-1, -1, 1, 0}, PadMode::constant, inf);
  EXPECT_TRUE(identical(y.detach(), tensor<float>({inf, inf, 1, 2}, {2, 2})));
  y.sum().backward();
  EXPECT_TRUE(identical(x.grad(), tensor<float>({0, 1, 1, 0}, {1, 4})));
  EXPECT_EQ(pad(zeros({}), {}).dim(), 0);
  EXPECT_TRUE(identical(pad(zeros({0, 2}), {0, 0, 1, 2}, PadMode::constant, 3), full({3, 2}, 3.0)));
  EXPECT_TRUE(identical(pad(ones({2}), {-2, 2}), zeros({2})));
  const Tensor row = ones({1, 3}).expand({2, 3}), flag = ones({2}, {.dtype = boolean});
  EXPECT_TRUE(identical(pad(row, {0, 0, 1, 0}), cat({zeros({1, 3}), ones({2, 3})}, 0)));
  EXPECT_TRUE(identical(pad(flag, {1, 0}).to(f32), tensor<float>({0, 1, 1})));
  EXPECT_TRUE(identical(pad(row.to(bf16), {-1, 0}).to(f32), ones({2, 2})));
  const Tensor image = randn({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last);
  for (const Dims& padding : {Dims{-1, 0, 0, -2}, Dims{0, 0}, Dims{2, -1, -1, 3, 0, 1}}) {
    const Tensor padded = pad(image, padding);
    EXPECT_TRUE(padded.is_contiguous(MemoryFormat::channels_last)) << padding;
    const TraceMode trace;
    EXPECT_TRUE(identical(padded, pad(image, padding))) << padding;
  }
}

TEST(Padding, Errors) {
  const Tensor x = zeros({1, 3});
  EXPECT_ERROR(pad(x, {1}), ShapeError, "pad: padding [1] is not two numbers for each");
  EXPECT_ERROR(pad(x, {1, 1, 1, 1, 1, 1}), ShapeError, "is not two numbers for each");
  EXPECT_ERROR(pad(x, {-2, -2}), ShapeError, "pad: nothing is left of dimension 1 of [1, 3]");
  EXPECT_ERROR(pad(x, {3, 0}, PadMode::reflect), ShapeError,
               "pad: reflect adds 3 elements to dimension 1 of [1, 3], which has fewer than 4");
  EXPECT_ERROR(pad(x, {0, 4}, PadMode::circular), ShapeError,
               "pad: circular adds 4 elements to dimension 1 of [1, 3], which has fewer");
  EXPECT_ERROR(pad(x, {1, 1, 1, 1}, PadMode::replicate), ShapeError,
               "pad the last 1, 2 or 3 dimensions of an input with 1 or 2 more");
  EXPECT_ERROR(pad(x, {1, 1}, "mirror"), Error,
               "pad: mode = \"mirror\"; there are constant, reflect, replicate and circular");
  EXPECT_ERROR(pad(x, {1, 1}, PadMode::reflect, 1), Error,
               "pad: a value can be given in the mode constant only");
}

// As in PyTorch. A contiguous result would be copied twice, here and by the next layer.
TEST(Pad, KeepsChannelsLast) {
  const Tensor x = randn({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last).requires_grad_();
  const Tensor y = pad(x, {1, 2, 0, 1}, PadMode::constant, 7);
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(
      identical(y.detach(), pad(x.detach().contiguous(), {1, 2, 0, 1}, PadMode::constant, 7)));
  y.sum().backward();
  EXPECT_TRUE(identical(x.grad(), ones({2, 3, 4, 5})));
}

}  // namespace
}  // namespace rondo::test
