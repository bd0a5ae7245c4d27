#include "nn/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/record.h"
#include "extras/quantization/prepare.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "nn/conv_transpose2d.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/models/models.h"
#include "nn/observe.h"
#include "nn/select.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

using ::testing::HasSubstr;

Sequential small() {
  return Sequential(Conv2d(3, 8, 3, {.stride = 2, .padding = 1, .groups = 1, .bias = false}),
                    BatchNorm2d(8), ReLU(), Flatten(), Linear(8 * 4 * 4, 10));
}

/// Products of int8 numbers count as multiply-adds.
TEST(Summary, AQuantizedModelHasTheWorkOfTheModelItWas) {
  const Tensor x = randn({2, 3, 8, 8});
  Sequential net = small();
  const std::int64_t work = summarize(net, x).multiply_adds;
  prepare(net, x);
  EXPECT_EQ(summarize(net, x).multiply_adds, work);
  no_grad([&] { return net(x); });
  convert(net);
  EXPECT_EQ(summarize(net, x).multiply_adds, work);
  Sequential linear(Linear(16, 4));
  quantize_dynamic(linear);
  EXPECT_EQ(summarize(linear, randn({3, 16})).multiply_adds, 3 * 4 * 16);
}

TEST(Summary, NamesLayersShapesParametersAndWork) {
  Sequential net = small();
  freeze(net, "4.*");
  const ModelSummary s = summarize(net, {2, 3, 8, 8});
  ASSERT_EQ(s.layers.size(), 5u);
  EXPECT_EQ(s.layers[0].name, "0");
  EXPECT_EQ(s.layers[0].type, "Conv2d");
  EXPECT_EQ(s.layers[0].input, (Dims{2, 3, 8, 8}));
  EXPECT_EQ(s.layers[0].output, (Dims{2, 8, 4, 4}));
  EXPECT_EQ(s.layers[0].parameters, 8 * 27);
  EXPECT_EQ(s.layers[0].multiply_adds, 2 * 8 * 16 * 27);
  EXPECT_EQ(s.layers[1].type, "BatchNorm2d");
  EXPECT_EQ(s.layers[4].multiply_adds, 2 * 10 * 128);
  EXPECT_EQ(s.parameters, 8 * 27 + 16 + 1290);
  EXPECT_EQ(s.trained, 8 * 27 + 16);
  EXPECT_EQ(s.parameter_bytes, 4 * s.parameters);
  EXPECT_EQ(s.output_bytes, 4 * (4 * 2 * 128 + 20));
  std::ostringstream text;
  text << s;
  EXPECT_THAT(text.str(), HasSubstr("0 (Conv2d)       [2, 8, 4, 4]         216          6,912\n"));
  EXPECT_THAT(text.str(), HasSubstr("1,522 parameters (0.01 MiB), of which 232 are trained"));
  EXPECT_THAT(text.str(), HasSubstr("9,472 multiply-adds"));
}

TEST(Summary, WorkOfTheResNetsIsTorchvisions) {
  // Billions of multiply-adds at 224 x 224, from torchvision's tables of weights (_ops).
  const std::pair<const char*, double> published[] = {
      {"resnet18", 1.814}, {"resnet34", 3.664}, {"resnet50", 4.089}};
  for (const auto& [name, giga] : published) {
    AnyModule net = make_model(name, {.num_classes = 1000, .stem = Stem::imagenet});
    const ModelSummary s = summarize(net, {1, 3, 224, 224});
    EXPECT_NEAR(static_cast<double>(s.multiply_adds) * 1e-9, giga, 5e-4) << name;
    std::int64_t of_layers = 0;
    for (const LayerSummary& layer : s.layers) of_layers += layer.parameters;
    EXPECT_EQ(of_layers, s.parameters) << name << ": each layer was seen";
  }
}

TEST(Summary, CountsConvolutionsOfOtherKinds) {
  Sequential line(Conv1d(4, 6, 3, {.groups = 2}));
  EXPECT_EQ(summarize(line, {2, 4, 9}).multiply_adds, 2 * 6 * 7 * (2 * 3));
  Sequential back(ConvTranspose2d(4, 6, 3, {.stride = 2, .groups = 2}));
  EXPECT_EQ(summarize(back, {2, 4, 5, 5}).multiply_adds, 2 * 4 * 25 * (3 * 9));
}

/// A parameter next to a child.
struct Scaled : Module {
  Linear inner{2, 3};
  Tensor scale = ones({3}).requires_grad_();
  Tensor forward(const Tensor& x) override { return inner(x) * scale; }
  void visit(Visitor& v) override {
    v.parameter("scale", scale);
    v.child("inner", inner);
  }
};

TEST(Summary, SeesParametersBesideChildren) {
  Scaled net;
  const ModelSummary s = summarize(net, {4, 2});
  ASSERT_EQ(s.layers.size(), 2u);
  EXPECT_EQ(s.layers[0].type, "Linear");
  EXPECT_EQ(s.layers[0].parameters, 9);
  EXPECT_EQ(s.layers[1].type, "Scaled");
  EXPECT_EQ(s.layers[1].parameters, 3);
}

TEST(Summary, LeavesModesAndGradientsAlone) {
  Sequential net = small();
  net.train();
  net[1].eval();  // as for a frozen batch norm
  const Tensor mean = net[1].as<BatchNorm2d>().running_mean.clone();
  summarize(net, {1, 3, 8, 8});
  EXPECT_TRUE(net.is_training());
  EXPECT_TRUE(net[0].is_training());
  EXPECT_FALSE(net[1].is_training());
  EXPECT_TRUE(test::identical(net[1].as<BatchNorm2d>().running_mean, mean));
  EXPECT_THROW(summarize(net, {1, 4, 8, 8}), ShapeError);
  EXPECT_TRUE(net.is_training());
}

TEST(ForwardObserver, SeesInnermostFirstAndOnlyWhileItLives) {
  Sequential net(Linear(2, 3), Sequential(ReLU()));
  std::vector<Dims> seen;
  {
    const ForwardObserver observer(
        [&](Module&, const Tensors&, const Tensors& y) { seen.push_back(y[0].shape()); });
    net(zeros({4, 2}));
  }
  net(zeros({5, 2}));
  EXPECT_EQ(seen, (std::vector<Dims>{{4, 3}, {4, 3}, {4, 3}, {4, 3}}));
}

/// A module without parameters of its own, but with products of its own.
TEST(Summary, CountsTheProductsOfAComposite) {
  struct Scores : nn::Module {
    nn::Linear q{4, 8, {.bias = false}}, k{4, 8, {.bias = false}};
    Tensor forward(const Tensor& x) override { return matmul(q(x), k(x).t()); }
    void visit(nn::Visitor& v) override {
      v.child("q", q);
      v.child("k", k);
    }
    std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
      return y.numel() * 8;
    }
  };
  Scores scores;
  EXPECT_EQ(nn::summarize(scores, randn({5, 4})).multiply_adds, 2 * 5 * 4 * 8 + 5 * 5 * 8);
}

}  // namespace
}  // namespace rondo::nn
