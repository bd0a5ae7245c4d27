// Models print as in PyTorch (tests/golden/make_model_print.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "autograd/ops/arithmetic.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "nn/conv_transpose2d.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/pooling.h"
#include "nn/recurrent.h"
#include "support/golden.h"

namespace rondo::nn {
namespace {

std::string printed(const Module& model) {
  std::ostringstream out;
  out.precision(2);  // does not matter
  out << model;
  return out.str();
}

std::string golden(const std::string& wanted) {
  for (const auto& [name, text] : test::golden_texts("model_print.txt"))
    if (name == wanted) return text;
  return "";
}

TEST(Print, AsPyTorch) {
  const Sequential convolutions(
      Conv2d(3, 16, 3, {.stride = 2, .padding = 1, .bias = false}), BatchNorm2d(16), ReLU(),
      Conv2d(16, 4, {3, 5},
             {.padding = 1, .dilation = 2, .groups = 2, .padding_mode = PadMode::reflect}),
      Conv2d(4, 4, 3, {.same_padding = true}),
      Sequential(MaxPool2d(2), MaxPool2d({3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true}),
                 AvgPool2d(2)),
      ConvTranspose2d(4, 4, 3, {.stride = 2, .padding = 1, .output_padding = 1}),
      AdaptiveAvgPool2d(1), Flatten(), Linear(4, 10, {.bias = false}), Dropout(0.1));
  EXPECT_EQ(printed(convolutions), golden("convolutions"));
  const ModuleList lines(
      Conv1d(3, 4, 5, {.padding = 2}), BatchNorm1d(4, {.momentum = std::nullopt, .affine = false}),
      LeakyReLU(0.1), LayerNorm(4), LayerNorm({2, 3}, {.elementwise_affine = false}),
      GroupNorm(2, 4), RMSNorm(4), RMSNorm(4, {.eps = 1e-6}), Embedding(10, 3, {.padding_idx = 0}),
      LSTM(3, 4, {.num_layers = 2, .bidirectional = true}), GRU(3, 4, {.batch_first = true}));
  EXPECT_EQ(printed(lines), golden("lines"));
}

struct Halved : Module {
  Linear fc{2, 3};
  double factor = 0.5;
  Tensor forward(const Tensor& x) override { return fc(x) * factor; }
  void visit(Visitor& v) override { v.child("fc", fc); }
  std::string extra_repr() const override { return "factor=0.5"; }
};

TEST(Print, AModuleOfYourOwn) {
  EXPECT_EQ(printed(Halved()),
            "Halved(\n  factor=0.5\n  (fc): Linear(in_features=2, out_features=3, bias=True)\n)");
  EXPECT_EQ(printed(AnyModule(ReLU())), "ReLU()");
}

}  // namespace
}  // namespace rondo::nn
