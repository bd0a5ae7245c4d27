// The layers that pad: the classes of nn/padding.h, and the modes of convolutions against PyTorch
// (tests/golden/make_padding.py).

#include "nn/padding.h"

#include <gtest/gtest.h>

#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

TEST(PaddingModules, CallPad) {
  const Tensor line = fill({2, 3, 5}, 0), image = fill({2, 3, 4, 5}, 0),
               volume = fill({1, 2, 3, 4, 3}, 0);
  const auto same = [](nn::AnyModule module, const Tensor& x, const Tensor& y) {
    EXPECT_TRUE(identical(module(x), y));
  };
  using enum PadMode;
  same(nn::ZeroPad1d(2), line, pad(line, {2, 2}));
  same(nn::ZeroPad2d(1), image, pad(image, {1, 1, 1, 1}));
  same(nn::ZeroPad3d(1), volume, pad(volume, {1, 1, 1, 1, 1, 1}));
  same(nn::ConstantPad1d({1, 2}, 3.5), line, pad(line, {1, 2}, constant, 3.5));
  same(nn::ConstantPad2d({1, 2, 0, -1}, 3.5), image, pad(image, {1, 2, 0, -1}, constant, 3.5));
  same(nn::ConstantPad3d(1, 3.5), volume, pad(volume, {1, 1, 1, 1, 1, 1}, constant, 3.5));
  same(nn::ReflectionPad1d({1, 2}), line, pad(line, {1, 2}, reflect));
  same(nn::ReflectionPad2d({1, 2, 0, 1}), image, pad(image, {1, 2, 0, 1}, reflect));
  same(nn::ReflectionPad3d(1), volume, pad(volume, {1, 1, 1, 1, 1, 1}, reflect));
  same(nn::ReplicationPad1d({1, 2}), line, pad(line, {1, 2}, replicate));
  same(nn::ReplicationPad2d(2), image, pad(image, {2, 2, 2, 2}, replicate));
  same(nn::ReplicationPad3d(1), volume, pad(volume, {1, 1, 1, 1, 1, 1}, replicate));
  same(nn::CircularPad1d({1, 2}), line, pad(line, {1, 2}, circular));
  same(nn::CircularPad2d(2), image, pad(image, {2, 2, 2, 2}, circular));
  same(nn::CircularPad3d(1), volume, pad(volume, {1, 1, 1, 1, 1, 1}, circular));
  EXPECT_ERROR(nn::ZeroPad2d({1, 2, 3}), ShapeError,
               "padding [1, 2, 3] is neither one number nor 4 for 2 dimensions");
}

TEST(PaddingModules, ModesOfConvolutionsAgreeWithPyTorch) {
  const Golden golden("padding.txt");
  const auto check = [&](const std::string& name, auto layer) {
    const auto run = [&](const Tensors& x) {
      layer.weight = x[1];
      layer.bias = x[2];
      return layer.forward(x[0]);
    };
    expect_case(golden, name, run, 40);
  };
  using Modes = std::vector<std::pair<std::string, PadMode>>;
  for (const auto& [name, mode] : Modes{{"reflect", PadMode::reflect},
                                        {"replicate", PadMode::replicate},
                                        {"circular", PadMode::circular}}) {
    check("conv1d." + name, nn::Conv1d(3, 2, 3, {.stride = 2, .padding = 2, .padding_mode = mode}));
    check("conv2d." + name, nn::Conv2d(2, 2, 3, {.padding = {2, 1}, .padding_mode = mode}));
  }
  for (const auto& [name, mode] :
       Modes{{"zeros", PadMode::constant}, {"circular", PadMode::circular}}) {
    check("conv1d.same." + name, nn::Conv1d(3, 2, 4, {.padding_mode = mode, .same_padding = true}));
    check(
        "conv2d.same." + name,
        nn::Conv2d(2, 2, {2, 3}, {.dilation = {1, 2}, .padding_mode = mode, .same_padding = true}));
  }
}

TEST(PaddingModules, SamePaddingOfOddKernelsIsThatOfTheConvolution) {
  const nn::Conv2d conv(3, 2, {3, 5}, {.same_padding = true});
  EXPECT_TRUE(conv.outer_padding.empty());
  EXPECT_EQ(conv.options.padding.h, 1);
  EXPECT_EQ(conv.options.padding.w, 2);
  EXPECT_ERROR(nn::Conv1d(3, 2, 3, {.stride = 2, .same_padding = true}), ShapeError,
               "Conv1d: same_padding needs stride 1 and no other padding, but stride is 2");
}

}  // namespace
}  // namespace rondo::test
