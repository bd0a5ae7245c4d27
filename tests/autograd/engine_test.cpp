// The tape itself: what backward adds up, what it frees, and its errors.

#include "autograd/engine.h"

#include <functional>

#include "autograd/gradcheck.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::identical;
using test::message_of;

using test::leaf;

TEST(Engine, AddsIntoEveryLeaf) {
  Tensor x = leaf({1, 2, 3}), w = leaf({4, 5, 6});
  (x * w).sum().backward();
  EXPECT_TRUE(identical(x.grad(), w.detach()));
  EXPECT_TRUE(identical(w.grad(), x.detach()));
  (x * 2.0).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 7, 8}));
}

TEST(Engine, SumsOverAllUsesOfATensor) {
  Tensor x = leaf({3});
  Tensor y = x * x + x;      // 2x + 1
  (y * y).sum().backward();  // 2 y (2x + 1) = 2 * 12 * 7
  EXPECT_EQ(x.grad().item<double>(), 168);
}

TEST(Engine, RunsTheNewestReadyNodeFirst) {
  Tensor x = leaf({2}), w = leaf({3});
  Tensor older = exp(x), newer = x * w;  // both are ready when the sum has run
  std::vector<std::string> order;
  const auto note = [&](const char* name) {
    return [&order, name](const Tensor&) {
      order.emplace_back(name);
      return Tensor();
    };
  };
  register_hook(older, note("older"));
  register_hook(newer, note("newer"));
  // A complete gradient of a leaf precedes all other nodes, so that it can be sent early.
  register_post_accumulate_grad_hook(w, [&](const Tensor&) { order.emplace_back("w"); });
  (older + newer).backward();
  EXPECT_EQ(order, (std::vector<std::string>{"newer", "w", "older"}));
}

TEST(Engine, NonLeavesGetNoGradUnlessAsked) {
  Tensor x = leaf({2});
  Tensor y = x * x, z = y * 3.0;
  z.retain_grad();
  (z * z).sum().backward();
  EXPECT_FALSE(y.grad().defined());
  EXPECT_EQ(z.grad().item<double>(), 24);
}

TEST(Engine, ZeroGradMakesTheGradientUndefined) {
  Tensor x = leaf({2});
  x.sum().backward();
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  (x * 5.0).sum().backward();
  EXPECT_EQ(x.grad().item<double>(), 5);
}

TEST(Engine, GradientsLiveInTheirSlot) {
  Tensor bucket = full({5}, 7.0, {.dtype = f64});
  Tensor x = leaf({1, 2});
  Tensor slot = Tensor::over(bucket.storage(), 2, {2}, {1}, f64);
  set_grad_slot(x, slot);
  for (int round = 1; round <= 2; ++round) {
    x.zero_grad();
    (x * double(round)).sum().backward();
    (x * double(round)).sum().backward();  // adds to the first gradient
    EXPECT_EQ(x.grad().data_ptr(), slot.data_ptr());
    double g = 2.0 * round;
    EXPECT_EQ(bucket.to_vector<double>(), (std::vector<double>{7, 7, g, g, 7}));
  }
}

TEST(Engine, SecondBackwardNeedsRetainGraph) {
  Tensor x = leaf({2});
  Tensor y = (x * x).sum();
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().item<double>(), 8);
  std::string message = message_of<AutogradError>([&] { y.backward(); });
  EXPECT_NE(message.find("mul: its saved tensors were freed"), std::string::npos) << message;
}

TEST(Engine, GradLeavesDotGradAlone) {
  Tensor x = leaf({3}), w = leaf({2});
  Tensor y = x * x, z = (y * w).sum();
  Tensors g = grad({z}, {x, y});
  EXPECT_EQ(g[0].item<double>(), 12);
  EXPECT_EQ(g[1].item<double>(), 2);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Engine, GradOfAnUnusedInput) {
  Tensor x = leaf({3}), w = leaf({2});
  Tensor z = (x * x).sum();
  EXPECT_FALSE(grad({z}, {w}, {.retain_graph = true, .allow_unused = true})[0].defined());
  EXPECT_THROW(grad({z}, {w}), AutogradError);
}

TEST(Engine, ThirdDerivative) {
  Tensor x = leaf({2});
  Tensor y = pow(x, 4).sum();
  for (double expected : {32.0, 48.0, 48.0}) {
    y = grad({y}, {x}, {.create_graph = true})[0];
    EXPECT_EQ(y.item<double>(), expected);
  }
}

TEST(Engine, ModifiedSavedTensorIsNamed) {
  Tensor x = leaf({2}), w = tensor<double>({3});
  Tensor y = x * w;
  w.add_(tensor<double>({1}));
  std::string message = message_of<AutogradError>([&] { y.sum().backward(); });
  EXPECT_NE(
      message.find("mul: a saved tensor of shape [1] was modified in place (it is at version 1, "
                   "version 0 was saved)"),
      std::string::npos)
      << message;
}

// The gradient of w needs h, which has changed; that of x does not, and is all that grad computes.
TEST(Engine, GradComputesOnlyWhatItIsAskedFor) {
  const Tensor x = leaf({2}), w = leaf({3}), h = x * 5.0;
  const Tensor y = h * w;
  h.add_(tensor<double>({1}));
  EXPECT_THROW(grad({y}, {w}, {.retain_graph = true}), AutogradError);
  EXPECT_EQ(grad({y}, {x}, {.retain_graph = true})[0].item<double>(), 15);
  EXPECT_THROW(grad({y}, {x, w}, {.retain_graph = true}), AutogradError);
  EXPECT_THROW(y.backward(), AutogradError);
}

// A write on a view, of which only the source leads to an input of grad, or only the base.
TEST(Engine, GradThroughWritesOnViewsComputesOnlyWhatItIsAskedFor) {
  using Write = std::function<void(const Tensor& view, const Tensor& w)>;
  const Write writes[] = {[](auto& v, auto& w) { v.add_(w); }, [](auto& v, auto& w) { v.sub_(w); },
                          [](auto& v, auto& w) { v.mul_(w); }, [](auto& v, auto& w) { v.div_(w); },
                          [](auto& v, auto& w) { v.copy_(w); }};
  for (std::size_t i = 0; i < std::size(writes); ++i) {
    const auto of = [&](bool of_x, bool of_w) {
      const Tensor x = leaf({1, 2, 3, 4}), w = leaf({2, 4});
      const Tensor base = x * 2.0;
      writes[i](base.narrow(0, 1, 2), w);
      Tensors inputs;
      if (of_x) inputs.push_back(x);
      if (of_w) inputs.push_back(w);
      return grad({(base * base).sum()}, inputs);
    };
    const Tensors both = of(true, true);
    EXPECT_TRUE(identical(of(true, false)[0], both[0])) << i;
    EXPECT_TRUE(identical(of(false, true)[0], both[1])) << i;
  }
}

TEST(Engine, NoGradAndDetach) {
  Tensor x = leaf({2});
  {
    NoGradGuard guard;
    EXPECT_FALSE((x * x).requires_grad());
  }
  Tensor d = (x * x).detach();
  EXPECT_FALSE(d.requires_grad());
  EXPECT_THROW(d.sum().backward(), AutogradError);
}

TEST(Engine, GradLeavesWhatIsBelowAnInputAlone) {
  Tensor w = leaf({3}), h = w * w;
  Tensor g = grad({(h * h).sum()}, {h})[0];
  EXPECT_EQ(g.item<double>(), 18);
  h.backward(g);  // w * w was neither run nor freed
  EXPECT_EQ(w.grad().item<double>(), 108);
}

TEST(Engine, GradOfAnInputAboveAnother) {
  Tensor w = leaf({3}), h = w * w;
  Tensors g = grad({(h * h).sum()}, {h, w, h});
  EXPECT_EQ(g[0].item<double>(), 18);
  EXPECT_EQ(g[1].item<double>(), 108);
  EXPECT_EQ(g[2].item<double>(), 18);
  EXPECT_THROW(h.sum().backward(), AutogradError);  // here w * w has run
}

TEST(Engine, AGradientOnTheTapeIsNobodyElses) {
  Tensor a = leaf({1}), b = leaf({1}), v = tensor<double>({1});
  (a + b).backward(v, true, true);
  (a + b).backward(v);
  EXPECT_EQ(a.grad().item<double>(), 2);
  EXPECT_EQ(b.grad().item<double>(), 2);
  EXPECT_EQ(v.item<double>(), 1);
}

TEST(Engine, CallbacksRunAtTheEndOfTheOutermostBackward) {
  Tensor x = leaf({2}), inner = leaf({1});
  std::vector<int> order;
  register_post_accumulate_grad_hook(x, [&](const Tensor&) {
    queue_callback([&] { order.push_back(2); });
    GradModeGuard recording(true);   // hooks run in the grad mode of the backward, which is off
    (inner * 2.0).sum().backward();  // re-entrant
    order.push_back(1);
  });
  (x * 2.0).sum().backward();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(inner.grad().item<double>(), 2);
  EXPECT_THROW(queue_callback([] {}), AutogradError);
}

TEST(Engine, ACallbackMayQueueAnother) {
  Tensor x = leaf({2});
  std::vector<int> order;
  HookHandle handle = register_post_accumulate_grad_hook(x, [&](const Tensor&) {
    queue_callback([&] {
      order.push_back(1);
      queue_callback([&] { order.push_back(2); });
    });
  });
  (x * 2.0).sum().backward();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Engine, DeepGraphsNeitherRecurseNorOverflow) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 400000; ++i) y = y + x;
  y.sum().backward();
  EXPECT_EQ(x.grad().item<double>(), 400001);
  Tensor z = x;
  for (int i = 0; i < 400000; ++i) z = -z;  // destroyed without having run
}

TEST(Engine, AnomalyModeNamesTheOpAndThePlace) {
  AnomalyMode anomaly;
  Tensor x = leaf({0});
  Tensor y;
  {
    ScopeName outer("layer1"), scope("conv1");
    y = sqrt(x) * 0.0;
  }
  std::string message = message_of<AutogradError>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("backward of sqrt returned NaN"), std::string::npos) << message;
  EXPECT_NE(message.find("recorded in layer1.conv1"), std::string::npos) << message;
}

TEST(Engine, ShapesOfGradientsAreChecked) {
  Tensor x = leaf({1, 2});
  EXPECT_THROW((x * 2.0).backward(), AutogradError);
  EXPECT_THROW((x * 2.0).backward(ones({3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(tensor<std::int64_t>({1}).requires_grad_(), DTypeError);
}

struct WrongShapeBackward final : Node {
  const char* name() const override { return "wrong_shape"; }
  Tensors backward(const Tensors&) override { return {ones({7}, {.dtype = f64})}; }
};
TEST(Engine, ACustomOpWithAWrongGradientIsNamed) {
  Tensor x = leaf({1, 2});
  Tensor y = record<WrongShapeBackward>({x}, x.detach().clone());
  std::string message = message_of<ShapeError>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("backward of wrong_shape: gradient [7] for input 0 of shape [2]"),
            std::string::npos)
      << message;
}

struct CubeBackward final : Node {
  SavedTensor x;
  explicit CubeBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "cube"; }
  Tensors backward(const Tensors& dy) override {
    Tensor v = x.get(*this);
    return {dy[0] * v * v * 3.0};
  }
  void release_saved() override { x.reset(); }
};
Tensor cube(const Tensor& x) {
  Tensor y = no_grad([&] { return x * x * x; });
  return record<CubeBackward>({x}, y, x);
}
TEST(Engine, CustomOpsPassGradcheck) {
  Tensor x = leaf({0.5, -1.5});
  auto f = [](const Tensors& in) { return Tensors{cube(in[0])}; };
  GradcheckResult first = gradcheck(f, {x}), second = gradgradcheck(f, {x});
  EXPECT_TRUE(first) << first.message;
  EXPECT_TRUE(second) << second.message;
}

struct WrongCubeBackward final : Node {
  const char* name() const override { return "wrong_cube"; }
  Tensors backward(const Tensors& dy) override { return {dy[0] * 3.0}; }
};
TEST(Gradcheck, CatchesAWrongDerivative) {
  Tensor x = leaf({0.5, -1.5});
  GradcheckResult result = gradcheck(
      [](const Tensors& in) {
        Tensor y = no_grad([&] { return in[0] * in[0] * in[0]; });
        return Tensors{record<WrongCubeBackward>({in[0]}, y)};
      },
      {x});
  EXPECT_FALSE(result);
  EXPECT_NE(result.message.find("element 0"), std::string::npos) << result.message;
}

TEST(Engine, SetDataMovesAllHandles) {
  Tensor x = leaf({1, 2});
  Tensor same = x;
  x.sum().backward();
  x.set_data(tensor<float>({3, 4, 5}));
  EXPECT_EQ(same.shape(), (Dims{3}));
  EXPECT_EQ(same.dtype(), f32);
  EXPECT_FALSE(same.grad().defined());
  EXPECT_TRUE(same.requires_grad());
  (x * 2.0).sum().backward();
  EXPECT_EQ(same.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

}  // namespace
}  // namespace rondo
