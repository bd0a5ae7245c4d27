// Hooks of modules: their order and what they get and replace, against PyTorch; their life.

#include "nn/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/linear.h"
#include "nn/recurrent.h"
#include "support/any_forward.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using ::testing::ElementsAre;

/// make_hooks.py has the same.
void set_hooked_weights(nn::Module& module) {
  module.to(f64);
  int k = 10;
  for (const Tensor& p : module.parameters()) {
    NoGradGuard no_grad;
    p.copy_(fill(p.shape(), k++));
  }
}

TEST(Hooks, OrderAndTensorsAreThoseOfPyTorch) {
  const Golden golden("hooks.txt");
  for (const std::string name : {"input", "gradient"}) {
    nn::Sequential net(nn::Linear(4, 3), nn::Tanh(), nn::Linear(3, 2));
    set_hooked_weights(net);
    std::vector<std::int64_t> order;
    const auto note = [&](int number, std::initializer_list<std::pair<const char*, Tensor>> seen) {
      order.push_back(number);
      for (const auto& [key, tensor] : seen) {
        const std::string entry = concat(name, '.', number, '.', key);
        EXPECT_EQ(golden.has(entry), tensor.defined()) << entry;
        if (!tensor.defined()) continue;
        EXPECT_TRUE(all_close(tensor, golden[entry], 1e-12)) << entry;
      }
    };
    net[0].register_forward_pre_hook([&](nn::Module&, const Tensors& x) {
      note(1, {});
      return x[0] * 2.0;
    });
    net[0].register_forward_pre_hook([&](nn::Module&, const Tensors& x) {
      note(2, {{"x", x[0]}});
    });
    net[0].register_forward_hook([&](nn::Module&, const Tensors&, const Tensors& y) {
      note(3, {});
      return y[0] + 1.0;
    });
    net[0].register_forward_hook([&](nn::Module&, const Tensors& x, const Tensors& y) {
      note(4, {{"x", x[0]}, {"y", y[0]}});
    });
    net.register_forward_hook([&](nn::Module&, const Tensors&, const Tensors& y) {
      note(5, {{"y", y[0]}});
    });
    net[2].register_full_backward_hook([&](nn::Module&, const Tensors& dx, const Tensors& dy) {
      note(6, {{"dx", dx[0]}, {"dy", dy[0]}});
      return Tensors{dx[0] * 3.0};
    });
    net[2].register_full_backward_hook([&](nn::Module&, const Tensors& dx, const Tensors&) {
      note(7, {{"dx", dx[0]}});
    });
    for (auto [module, number] :
         {std::pair(&net[0].get(), 8), std::pair<nn::Module*, int>(&net, 9)})
      module->register_full_backward_hook(
          [&, number = number](nn::Module&, const Tensors& dx, const Tensors& dy) {
            note(number, {{"dx", dx[0]}, {"dy", dy[0]}});
          });
    net.register_forward_hook([&](nn::Module&, const Tensors&, const Tensors&) { note(10, {}); })
        .remove();

    const Tensor x = fill({5, 4}, 0, 2.0).requires_grad_(name == "gradient");
    const Tensor y = net(x);
    y.backward(fill(y.shape(), 1));
    EXPECT_EQ(order, golden[name + ".order"].to_vector<std::int64_t>());
    EXPECT_TRUE(all_close(y, golden[name + ".y"], 1e-12));
    if (name == "gradient") {
      EXPECT_TRUE(all_close(x.grad(), golden[name + ".dx"], 1e-12));
    }
    for (const auto& [key, p] : net.named_parameters())
      EXPECT_TRUE(all_close(p.grad(), golden[name + ".d." + key], 1e-12)) << key;
  }
}

using ScoreResults = std::tuple<Tensor, Tensor, Tensor>;
struct HookedScores : nn::ModuleOf<ScoreResults(Tensor, Tensor)> {
  nn::Linear fc{4, 3};
  ScoreResults forward(Tensor x, Tensor mask) override {
    const Tensor y = fc(x);
    return {y, y * mask, y.sum()};
  }
  void visit(nn::Visitor& v) override { v.child("fc", fc); }
};

TEST(Hooks, OfSeveralArgumentsAndResults) {
  const Golden golden("hooks.txt");
  HookedScores scores;
  set_hooked_weights(scores);
  scores.register_forward_pre_hook([](nn::Module&, const Tensors& inputs) {
    return Tensors{inputs[0] + 1.0, inputs[1]};
  });
  scores.register_forward_hook([](nn::Module&, const Tensors&, const Tensors& outputs) {
    return Tensors{outputs[0], outputs[1] * 2.0, outputs[2]};
  });
  int calls = 0;
  scores.register_full_backward_hook([&](nn::Module& m, const Tensors& dx, const Tensors& dy) {
    ++calls;
    EXPECT_EQ(&m, &scores);
    EXPECT_TRUE(all_close(dx[0], golden["scores.dx"], 1e-12));
    EXPECT_TRUE(all_close(dy[1], golden["scores.dy1"], 1e-12));
    EXPECT_EQ((std::vector<std::int64_t>{dx[0].defined(), dy[0].defined(), dy[1].defined(),
                                         dy[2].defined()}),
              golden["scores.has"].to_vector<std::int64_t>());
  });
  const Tensor x = fill({5, 4}, 0, 2.0).requires_grad_();
  const auto [a, b, c] = scores(x, fill({5, 3}, 2));
  (b * fill({5, 3}, 1)).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(all_close(a, golden["scores.0"], 1e-12));
  EXPECT_TRUE(all_close(b, golden["scores.1"], 1e-12));
  EXPECT_TRUE(all_close(c, golden["scores.2"], 1e-12));
  EXPECT_TRUE(all_close(x.grad(), golden["scores.x.grad"], 1e-12));
}

/// A hook that counts its calls.
auto counter(int& calls) {
  return [&calls](nn::Module&, const Tensors&, const Tensors&) { ++calls; };
}

TEST(Hooks, RunWhenAModuleIsCalledInAnyWay) {
  int calls = 0;
  nn::Linear linear(4, 4);
  linear.register_forward_hook(counter(calls));
  const Tensor x = randn({3, 4});
  linear(x);
  linear(x, Activation::relu);
  EXPECT_EQ(calls, 2);
  linear.forward(x);
  EXPECT_EQ(calls, 2);

  nn::LSTM lstm(4, 5);
  lstm.register_forward_hook([&](nn::Module&, const Tensors& inputs, const Tensors& outputs) {
    ++calls;
    EXPECT_EQ(inputs.size(), 4u);   // x, h, c, lengths
    EXPECT_EQ(outputs.size(), 3u);  // output, h, c
    Tensors doubled = outputs;
    doubled[1] = doubled[1] * 2.0;
    return doubled;
  });
  const Tensor h = zeros({1, 5});
  const auto [output, state] = lstm(x, {.h = h, .c = h});
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(all_close(state.h[0], output[2] * 2.0, 1e-6));

  nn::MultiheadAttention attention(4, 2);
  attention.register_forward_pre_hook([&](nn::Module&, const Tensors& inputs) {
    ++calls;
    EXPECT_TRUE(inputs[0].is_same(x));
  });
  attention(x, x, x);
  EXPECT_EQ(calls, 4);

  nn::BatchNorm1d norm(4);
  norm.register_forward_hook(counter(calls));
  norm(x, {.relu = true});
  EXPECT_EQ(calls, 5);
}

TEST(Hooks, CopiesHaveTheirOwn) {
  int calls = 0;
  nn::Sequential net(nn::Linear(2, 2));
  HookHandle handle = net[0].register_forward_hook(counter(calls));
  nn::Sequential copy = clone(net);
  const Tensor x = ones({1, 2});
  net(x);
  copy(x);
  EXPECT_EQ(calls, 2);
  handle.remove();  // of the original
  net(x);
  EXPECT_EQ(calls, 2);
  copy(x);
  EXPECT_EQ(calls, 3);

  handle = copy.register_forward_hook(counter(calls));
  nn::Sequential moved = std::move(copy);
  moved(x);
  EXPECT_EQ(calls, 5);
  handle.remove();
  moved(x);
  EXPECT_EQ(calls, 6);
}

TEST(Hooks, MayRemoveThemselves) {
  int calls = 0;
  nn::Linear linear(2, 2);
  HookHandle handle;
  handle = linear.register_forward_pre_hook([&](nn::Module&, const Tensors&) {
    ++calls;
    handle.remove();
  });
  linear(ones({1, 2}));
  linear(ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, TheWrongNumberOfTensorsIsAnError) {
  const Tensor x = ones({1, 2}).requires_grad_();
  const auto two = [](nn::Module&, const Tensors&, const Tensors&) { return Tensors(2); };
  nn::Linear linear(2, 2);
  HookHandle handle = linear.register_forward_hook(two);
  EXPECT_ERROR(linear(x), Error,
               "register_forward_hook of Linear: the hook returned 2 tensors to replace 1");
  handle.remove();
  linear.register_full_backward_hook(two);
  EXPECT_ERROR(linear(x).sum().backward(), Error, "register_full_backward_hook of Linear");
}

TEST(Hooks, ABackwardHookNeedsItsModule) {
  Tensor y;
  {
    nn::Linear linear(2, 2);
    linear.register_full_backward_hook([](nn::Module&, const Tensors&, const Tensors&) {});
    y = linear(ones({1, 2}).requires_grad_());
  }
  EXPECT_ERROR(y.sum().backward(), AutogradError, "the module was destroyed or moved");
  nn::Linear first(2, 2);
  first.register_full_backward_hook([](nn::Module&, const Tensors&, const Tensors&) {});
  y = first(ones({1, 2}).requires_grad_());
  nn::Linear second = std::move(first);
  EXPECT_ERROR(y.sum().backward(), AutogradError, "the module was destroyed or moved");
  second(ones({1, 2}).requires_grad_()).sum().backward();
}

TEST(Hooks, KeepTheirState) {
  std::vector<int> seen;
  nn::Linear linear(2, 2);
  linear.register_forward_hook(
      [&seen, n = 0](nn::Module&, const Tensors&, const Tensors&) mutable { seen.push_back(++n); });
  linear(ones({1, 2}));
  linear(ones({1, 2}));
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST(Hooks, WithoutRecordingABackwardHookDoesNothing) {
  int calls = 0;
  nn::Linear linear(2, 2);
  linear.register_full_backward_hook(counter(calls));
  NoGradGuard no_grad;
  EXPECT_FALSE(linear(ones({1, 2}).requires_grad_()).requires_grad());
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace rondo::test
