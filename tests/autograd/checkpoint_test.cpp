// checkpoint: gradients are bit-identical to those of a function whose tensors were kept; the
// tensors are not kept; the second run must get the same data.

#include "autograd/checkpoint.h"

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/models/models.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/random.h"

namespace rondo::test {
namespace {

/// The output and all gradients of one step of a model, with the same random numbers each time.
Tensors step(nn::Module& model, const Tensor& input) {
  manual_seed(7);
  model.zero_grad();
  Tensor x = input.clone().requires_grad_();
  const Tensor y = model(x);
  (y * y).sum().backward();
  Tensors found = {y.detach(), x.grad()};
  for (const Tensor& p : model.parameters()) found.push_back(p.grad().clone());
  for (const auto& [name, buffer] : model.named_buffers()) found.push_back(buffer.clone());
  return found;
}

void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(identical(a[i], b[i])) << i;
}

nn::Sequential checkpointed_layers() {
  manual_seed(1);
  return nn::Sequential(
      nn::Sequential(nn::Linear(6, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Dropout(0.5)),
      nn::Sequential(nn::Linear(8, 8), nn::GELU(), nn::Dropout(0.3)), nn::Linear(8, 3));
}

TEST(Checkpoint, GradientsRunningStatisticsAndRandomNumbersAreThoseWithout) {
  const Tensor x = randn({5, 6});
  nn::Sequential kept = checkpointed_layers(), again = checkpointed_layers();
  again.grad_checkpointing = true;
  for (int i = 0; i < 2; ++i) expect_same(step(again, x), step(kept, x));
  const auto after = default_generator().state();
  manual_seed(7);
  (void)kept(x);
  EXPECT_EQ(default_generator().state(), after);  // the second run has not advanced the generator
}

TEST(Checkpoint, ResNetsOfBothKinds) {
  const Tensor x = randn({2, 3, 32, 32});
  for (const char* name : {"resnet20", "resnet18", "resnet50"}) {
    manual_seed(1);
    nn::AnyModule kept = nn::make_model(name);
    manual_seed(1);
    nn::AnyModule again = nn::make_model(name, {.grad_checkpointing = true});
    expect_same(step(again.get(), x), step(kept.get(), x));
  }
  EXPECT_ERROR(nn::make_model("mlp", {.grad_checkpointing = true}), Error, "mlp");
}

TEST(Checkpoint, Nests) {
  const Tensor x = tensor<double>({0.3, -0.2, 1.5}).requires_grad_();
  int inner = 0, outer = 0;
  auto cube = [&](const Tensor& x) {
    ++inner;
    return x * x * x;
  };
  auto f = [&](const Tensor& x) {
    ++outer;
    return exp(checkpoint(cube, sin(x))) * x;
  };
  const Tensor y = checkpoint(f, x);
  EXPECT_EQ(inner, 1);
  const Tensor gradient = grad({y.sum()}, {x})[0];
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 3);  // in the second run of the outer part, and for its own nodes
  const Tensor s = sin(x);
  const Tensor want = grad({(exp(s * s * s) * x).sum()}, {x})[0];
  expect_same({gradient}, {want});
}

/// A norm in an inner part runs three times, but counts once.
TEST(Checkpoint, NestedPartsCountOnce) {
  const Tensor x = randn({5, 6});
  nn::Sequential kept(nn::Sequential(nn::Linear(6, 8), nn::BatchNorm1d(8)), nn::ReLU());
  nn::Sequential again(nn::Sequential(nn::Linear(6, 8), nn::BatchNorm1d(8)), nn::ReLU());
  again[0].as<nn::Sequential>().grad_checkpointing = true;
  again.grad_checkpointing = true;
  for (std::size_t i = 0; i < kept.parameters().size(); ++i)
    no_grad([&] { again.parameters()[i].copy_(kept.parameters()[i]); });
  expect_same(step(again, x), step(kept, x));
}

TEST(Checkpoint, SecondDerivativesSeveralInputsAndOutputs) {
  const Tensor a = tensor<double>({0.5, 2}).requires_grad_();
  const Tensor b = tensor<double>({-1.5, 0.25}).requires_grad_();
  const Tensor c = tensor<double>({3, 4});  // needs no gradient
  auto f = [](const Tensors& in) {
    return Tensors{in[0] * in[1] * in[2], tanh(in[0]) * in[1] * in[1], in[2]};
  };
  auto second = [&](const Tensors& y) {
    const Tensors first = grad({(y[0] * y[1]).sum()}, {a, b}, {.create_graph = true});
    return grad({(first[0] * first[1]).sum()}, {a, b});
  };
  expect_same(second(checkpoint(f, {a, b, c})), second(f({a, b, c})));
}

TEST(Checkpoint, HoldsItsInputsAlone) {
  const Tensor x = randn({1000}).requires_grad_();
  std::weak_ptr<Storage> inside;
  auto f = [&](const Tensor& x) {
    const Tensor middle = exp(x);
    inside = middle.storage();
    return middle * middle;
  };
  const Tensor y = checkpoint(f, x);
  EXPECT_TRUE(inside.expired());
  y.sum().backward();
  EXPECT_TRUE(inside.expired());
}

TEST(Checkpoint, RunsUnderTheSameAutocast) {
  nn::Linear layer(16, 16);
  const Tensor x = randn({4, 16});
  auto gradient = [&](bool again) {
    layer.zero_grad();
    auto f = [&](const Tensor& x) { return tanh(layer(x)); };
    Tensor y;
    {
      const Autocast amp(Device::cpu(), bf16);
      y = again ? checkpoint(f, x) : f(x);
    }
    EXPECT_EQ(y.dtype(), bf16);
    y.to(f32).sum().backward();
    return layer.weight.grad().clone();
  };
  expect_same({gradient(true)}, {gradient(false)});
}

TEST(Checkpoint, RecordsNothingWithoutGradients) {
  int runs = 0;
  auto f = [&](const Tensor& x) {
    ++runs;
    return x * 2.0;
  };
  const NoGradGuard off;
  EXPECT_FALSE(checkpoint(f, ones({2}).requires_grad_()).requires_grad());
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(is_recomputing());
}

TEST(Checkpoint, BackwardTwiceNeedsTheGraph) {
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = checkpoint([](const Tensor& x) { return x * x; }, x).sum();
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{4, 4}));
  EXPECT_ERROR(y.backward(), AutogradError, "freed by an earlier backward; pass retain_graph");
}

TEST(Checkpoint, NoticesWhatIsNotTheSameTheSecondTime) {
  const Tensor x = ones({2}).requires_grad_();
  int runs = 0;
  auto longer = [&](const Tensor& x) { return ++runs == 1 ? x * x : x * x * x; };
  EXPECT_ERROR(checkpoint(longer, x).sum().backward(), AutogradError,
               "no such tensor in the first run");
  runs = 0;
  auto shorter = [&](const Tensor& x) { return ++runs == 1 ? x * x * x : x * x; };
  EXPECT_ERROR(checkpoint(shorter, x).sum().backward(), AutogradError,
               "saved 2 tensors, but 4 in the first run");
  runs = 0;
  auto other = [&](const Tensor& x) { return ++runs == 1 ? x * x : cat({x, x}) * cat({x, x}); };
  EXPECT_ERROR(checkpoint(other, x).sum().backward(), AutogradError,
               "one of shape [2] in the first run");
  runs = 0;
  auto fails = [&](const Tensor& x) {
    require(++runs == 1, "the second time it fails");
    return x * x;
  };
  EXPECT_ERROR(checkpoint(fails, x).sum().backward(), Error, "the second time it fails");
  EXPECT_FALSE(is_recomputing());
}

TEST(Checkpoint, NoticesInputsAndParametersThatWereOverwritten) {
  const Tensor x = ones({2}).requires_grad_(), w = full({2}, 3).requires_grad_();
  auto f = [&](const Tensor& x) { return x * w; };
  const Tensor middle = x * 1.0;
  Tensor y = checkpoint(f, middle).sum();
  no_grad([&] { middle.mul_(full({2}, 2)); });
  EXPECT_ERROR(y.backward(), AutogradError, "was modified in place");
  y = checkpoint(f, x).sum();
  no_grad([&] { w.mul_(full({2}, 2)); });
  EXPECT_ERROR(y.backward(), AutogradError, "that the function reads was modified in place");
}

}  // namespace
}  // namespace rondo::test
