// weight_norm and spectral_norm against PyTorch: outputs, gradients, state dict; copies; errors.

#include "nn/parametrizations.h"

#include <algorithm>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/conv_transpose2d.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo {
namespace {

/// Fills the tensors in the order of their names, as the golden's script does.
void fill_by_name(std::vector<nn::NamedTensor> tensors, std::uint32_t first, bool unit) {
  const NoGradGuard no_grad;
  std::ranges::sort(tensors, {}, &nn::NamedTensor::name);
  for (const auto& [name, tensor] : tensors) {
    const Tensor values = test::fill(tensor.shape(), first++);
    tensor.copy_(unit ? values / values.norm() : values);
  }
}

template <class Layer>
void expect_as_pytorch(const std::string& name, Layer layer, const Dims& shape) {
  SCOPED_TRACE(name);
  const test::Golden golden("parametrizations.txt");
  const auto expect = [&](const Tensor& ours, const std::string& key) {
    EXPECT_TRUE(test::all_close(ours.detach(), golden[name + "." + key], 1e-13, 1e-12)) << key;
  };
  layer.to(f64);
  fill_by_name(layer.named_parameters(), 10, false);
  fill_by_name(layer.named_buffers(), 20, true);
  const Tensor x = test::fill(shape, 0, 2).requires_grad_();
  const Tensor first = layer(x), y = layer(x);
  (first + y).backward(test::fill(y.shape(), 1));
  expect(y, "y");
  expect(x.grad(), "dx");
  for (const auto& [key, p] : layer.named_parameters()) expect(p.grad(), "d." + key);
  layer.eval();
  expect(layer(x), "eval");
  expect(layer.weight, "weight");
  for (const auto& [key, tensor] : layer.state_dict()) expect(tensor, "state." + key);
}

TEST(WeightNorm, AgreesWithPyTorch) {
  expect_as_pytorch("weight_norm.linear", nn::weight_norm(nn::Linear(4, 3)), {2, 4});
  expect_as_pytorch("weight_norm.whole",
                    nn::weight_norm(nn::Linear(4, 3, {.bias = false}), {.dim = std::nullopt}),
                    {2, 4});
  expect_as_pytorch("weight_norm.conv", nn::weight_norm(nn::Conv2d(2, 3, 2), {.dim = -3}),
                    {2, 2, 4, 3});
}

TEST(SpectralNorm, AgreesWithPyTorch) {
  expect_as_pytorch("spectral_norm.linear", nn::spectral_norm(nn::Linear(4, 3)), {2, 4});
  expect_as_pytorch("spectral_norm.conv",
                    nn::spectral_norm(nn::Conv2d(2, 3, 2), {.n_power_iterations = 3}),
                    {2, 2, 4, 3});
  expect_as_pytorch("spectral_norm.transposed", nn::spectral_norm(nn::ConvTranspose2d(2, 3, 2)),
                    {2, 2, 4, 3});
}

TEST(WeightNorm, StartsWithTheWeightOfTheLayer) {
  const nn::Linear plain(4, 3);
  const Tensor before = plain.weight.detach().clone();
  auto layer = nn::weight_norm(plain);
  EXPECT_TRUE(test::all_close(layer.weight.detach(), before, 1e-6));
  std::string names;
  for (const auto& [name, tensor] : layer.state_dict()) names += name + " ";
  EXPECT_EQ(names, "bias parametrizations.weight.original0 parametrizations.weight.original1 ");
}

TEST(WeightNorm, MinusOneIsOneNormForAllElements) {
  EXPECT_EQ(nn::weight_norm(nn::Linear(4, 3), {.dim = -1}).state_dict()[1].tensor.dim(), 0);
}

TEST(SpectralNorm, ScalesTheLargestSingularValueToOne) {
  manual_seed(1);
  nn::Linear plain(3, 3, {.bias = false});
  plain.weight.detach().copy_(tensor<float>({3, 0, 0, 0, 2, 0, 0, 0, 1}, {3, 3}));
  auto layer = nn::spectral_norm(plain);
  for (int i = 0; i < 20; ++i) layer(ones({1, 3}));
  EXPECT_TRUE(test::all_close(layer.weight.detach(),
                              tensor<float>({1, 0, 0, 0, 2 / 3.0f, 0, 0, 0, 1 / 3.0f}, {3, 3}),
                              1e-5));
}

TEST(SpectralNorm, OnlyTrainingChangesTheVectors) {
  auto layer = nn::spectral_norm(nn::Linear(4, 3));
  const auto vectors = [&] { return layer.named_buffers()[0].tensor.to_vector(); };
  layer.eval();
  const auto before = vectors();
  layer(ones({1, 4}));
  EXPECT_EQ(vectors(), before);
}

TEST(Parametrized, LayersAreTrainedAndCopiedInAModel) {
  nn::Sequential net(nn::weight_norm(nn::Linear(4, 8)), nn::spectral_norm(nn::Linear(8, 1)));
  nn::Sequential copy = nn::clone(net);
  const Tensor x = test::fill({5, 4}, 0).to(f32);
  net.eval();
  copy.eval();
  EXPECT_EQ(net(x).to_vector(), copy(x).to_vector());
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  net(x).sum().backward();
  sgd.step();
  EXPECT_NE(net(x).to_vector(), copy(x).to_vector());
  copy.load_state_dict(net.state_dict());
  EXPECT_EQ(net(x).to_vector(), copy(x).to_vector());
}

TEST(Parametrized, AnyLayerWithAWeightMayBe) {
  auto table = nn::weight_norm(nn::Embedding(5, 3));
  EXPECT_EQ(table(tensor<std::int64_t>({1, 4})).shape(), (Dims{2, 3}));
}

TEST(Parametrized, RefusesDimensionsThatTheWeightLacks) {
  EXPECT_ERROR(nn::weight_norm(nn::Linear(4, 3), {.dim = 2}), ShapeError,
               "weight_norm: dim is 2, but the weight [3, 4] has 2 dimensions");
  EXPECT_ERROR(nn::spectral_norm(nn::Linear(4, 3), {.dim = -3}), ShapeError,
               "spectral_norm: dim is -3");
  EXPECT_ERROR(nn::spectral_norm(nn::Linear(4, 3), {.n_power_iterations = 0}), Error,
               "spectral_norm: n_power_iterations is 0, but must be at least 1");
  auto layer = nn::weight_norm(nn::Linear(4, 3));
  EXPECT_ERROR(layer.parametrization()(ones({1})), Error, "WeightNorm: has no forward");
}

struct MaskedLinear : nn::Linear {
  Tensor mask = ones({3});
  MaskedLinear() : Linear(3, 3) {}
  void visit(nn::Visitor& v) override {
    Linear::visit(v);
    v.non_persistent_buffer("mask", mask);
  }
};

TEST(Parametrizations, NonPersistentBuffersStayOutOfTheStateDict) {
  auto layer = nn::weight_norm(MaskedLinear());
  EXPECT_EQ(layer.named_buffers().size(), 1U);
  EXPECT_FALSE(layer.state_dict().contains("mask"));
}

}  // namespace
}  // namespace rondo
