// Members that `visit` leaves out must be found; similar but correct cases must not.

#include "nn/shown.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "autograd/checkpoint.h"
#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using nn::Linear;
using optim::SGD;

/// Uses `forgotten` in forward. `visit` shows it only if the flags say so.
struct Leaky : nn::Module {
  Linear shown{4, 4}, forgotten{4, 3};
  Tensor scale = ones({3});
  bool shows_layer = true, shows_scale = true;
  Tensor forward(const Tensor& x) override { return forgotten(shown(x)) * scale; }
  /// A call with several inputs, which does not go through forward.
  Tensor of_two(const Tensor& a, const Tensor& b) { return forgotten(shown(a + b)); }
  void visit(nn::Visitor& v) override {
    v.child("shown", shown);
    if (shows_layer) v.child("forgotten", forgotten);
    if (shows_scale) v.parameter("scale", scale);
  }
};

void learn(optim::Optimizer& optimizer, const Tensor& y) {
  optimizer.zero_grad();
  sum(y).backward();
  optimizer.step();
}

TEST(Shown, ALayerThatVisitLeavesOutIsNamedInTheFirstStep) {
  Leaky net;
  net.shows_layer = false;
  SGD sgd(net.parameters(), {.lr = 0.1});
  const std::string sentence = message_of([&] { learn(sgd, net(ones({2, 4}))); });
  EXPECT_TRUE(sentence ==
                  "SGD: a tensor [3, 4] that requires a gradient was used by linear in the "
                  "forward of Linear, which Leaky runs, but no visit shows it, so it is "
                  "neither trained nor saved; show it or its layer in visit (v.child, "
                  "v.parameter, or v.buffer if it is not to be trained), or call "
                  "requires_grad_(false) on it" ||
              sentence.starts_with("SGD: a tensor [3] that"))  // the bias
      << sentence;
  EXPECT_ERROR(learn(sgd, net(ones({2, 4}))), Error,
               "no visit shows it");  // and in each later one
  net.shows_layer = true;
  SGD all(net.parameters(), {.lr = 0.1});
  learn(all, net(ones({2, 4})));
}

TEST(Shown, ALayerIsFoundInWhicheverWayTheModelRuns) {
  const Tensor x = ones({2, 4});
  const auto expect_found = [&](const std::function<Tensor(Leaky&)>& run) {
    Leaky net;
    net.shows_layer = false;
    optim::Adam adam(net.parameters(), {.lr = 0.1});
    EXPECT_ERROR(learn(adam, run(net)), Error, "Adam: a tensor [3");
  };
  expect_found([&](Leaky& net) { return net.forward(x); });
  expect_found([&](Leaky& net) { return net.of_two(x, x); });
  expect_found(
      [&](Leaky& net) { return checkpoint([&](const Tensor& in) { return net(in); }, x); });
  expect_found([&](Leaky& net) {  // nodes that were already inspected for another reason
    sum(net.of_two(x, x)).backward();
    SGD other({ones({1})}, {.lr = 0.1});
    net.forgotten.weight.zero_grad();
    net.forgotten.bias.zero_grad();
    nn::detail::require_all_shown("nothing has a gradient");
    return net(x);
  });
}

TEST(Shown, LookingForALayersNameShowsNothing) {
  struct Forgetful : nn::Module {
    Linear fc{4, 4};
    nn::MultiheadAttention attention{4, 2};
    Tensor forward(const Tensor& x) override { return attention(fc(x)); }
    void visit(nn::Visitor& v) override { v.child("fc", fc); }
  } net;
  net.attention.out_proj.requires_grad_(false);
  SGD sgd(net.parameters(), {.lr = 0.1});
  const detect_anomaly names_are_wanted;
  EXPECT_ERROR(learn(sgd, net(ones({2, 4}))), Error,
               "in the forward of MultiheadAttention, which Forgetful runs, but no visit shows it");
}

TEST(Shown, ARawTensorThatVisitLeavesOut) {
  Leaky net;
  net.shows_scale = false;
  net.scale.requires_grad_();
  SGD sgd(net.parameters(), {.lr = 0.1});
  EXPECT_ERROR(
      learn(sgd, net(ones({2, 4}))), Error,
      "SGD: a tensor [3] that requires a gradient was used by mul in the forward of Leaky, "
      "but no visit shows it");
  SGD own({net.scale}, {.lr = 0.1});  // another optimizer trains it
  learn(sgd, net(ones({2, 4})));
}

TEST(Shown, ParameterMakesATensorLearn) {
  Leaky net;
  EXPECT_FALSE(net.scale.requires_grad());
  SGD sgd(net.parameters(), {.lr = 0.1});
  EXPECT_TRUE(net.scale.requires_grad());
  learn(sgd, net(ones({2, 4})));
  EXPECT_NE(net.scale.to_vector(), std::vector<float>(3, 1));

  Leaky frozen;  // before the first visit
  frozen.scale.requires_grad_(false);
  frozen.shown.weight.requires_grad_(false);
  frozen.parameters();
  EXPECT_FALSE(frozen.scale.requires_grad());
  EXPECT_FALSE(frozen.shown.weight.requires_grad());
  net.requires_grad_(false);  // after a visit
  EXPECT_FALSE(nn::clone(net).parameters()[0].requires_grad());
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.requires_grad());

  struct Bytes : nn::Module {  // only floating-point tensors have gradients
    Tensor table = ones({2}, {.dtype = u8});
    Tensor forward(const Tensor& x) override { return x; }
    void visit(nn::Visitor& v) override { v.parameter("table", table); }
  } bytes;
  EXPECT_FALSE(bytes.parameters()[0].requires_grad());
}

TEST(Shown, WhatIsShownToSomeoneMayGoUntrained) {
  const Tensor x = ones({2, 4});
  {  // two networks, two optimizers
    nn::Sequential generator(Linear(4, 4), nn::ReLU()), critic(Linear(4, 1));
    SGD of_generator(generator.parameters(), {.lr = 0.1}),
        of_critic(critic.parameters(), {.lr = 0.1});
    learn(of_critic, critic(generator(x)));
    learn(of_generator, critic(generator(x)));
  }
  {  // the head of a model whose visit nobody has called
    Leaky net;
    SGD head(net.forgotten.parameters(), {.lr = 0.1});
    learn(head, net(x));
    learn(head, net(x));
  }
  {  // a head on a body, with a teacher
    Linear body(4, 4), head(4, 2), teacher(4, 2);
    SGD sgd(head.parameters(), {.lr = 0.1});
    learn(sgd, head(body(x)) - teacher(x));
    learn(sgd, head(checkpoint([&](const Tensor& in) { return body(in); }, x)) - teacher(x));
  }
  {  // frozen parts, several groups
    Leaky net;
    net.shows_layer = false;
    for (const Tensor& p : net.forgotten.parameters()) p.requires_grad_(false);
    SGD sgd({{{net.shown.weight}, {.lr = 0.1}}, {{net.shown.bias, net.scale}, {.lr = 0.2}}});
    learn(sgd, net(x));
  }
}

TEST(Shown, InputsMayRequireGradients) {
  Leaky net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  const Tensor x = ones({2, 4}).requires_grad_(), shift = zeros({4}).requires_grad_();
  learn(sgd, net(x));
  EXPECT_TRUE(x.grad().defined());
  learn(sgd, net(x + shift));  // as in adversarial training
  learn(sgd, net.forward(x));
  learn(sgd, net.of_two(x, shift));
  nn::MultiheadAttention attention(4, 2);
  const Tensor keys = ones({3, 4}).requires_grad_(), mask = zeros({2, 3}).requires_grad_();
  SGD other(attention.parameters(), {.lr = 0.1});
  learn(other, attention(x, keys, keys, {.attn_mask = mask}).output);
  EXPECT_TRUE(mask.grad().defined());
  Linear fixed(4, 4);  // optimizes an image, not a network
  SGD of_input({shift}, {.lr = 0.1});
  learn(of_input, fixed(x + shift));
}

TEST(Shown, AGradientWithoutAStepIsNobodysMistake) {
  struct Probe : nn::Module {
    Linear fc{4, 4};
    Tensor probe = zeros({4}).requires_grad_();
    Tensor forward(const Tensor& x) override { return fc(x) + probe; }
    void visit(nn::Visitor& v) override { v.child("fc", fc); }
  } probed;
  Leaky net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  sum(probed(ones({2, 4}))).backward();
  probed.probe.zero_grad();  // the gradient was read
  learn(sgd, net(ones({2, 4})));
  {
    Probe gone;
    sum(gone(ones({2, 4}))).backward();
  }
  learn(sgd, net(ones({2, 4})));

  struct Forces : nn::Module {  // differentiates inside forward
    Linear fc{4, 1};
    Tensor forward(const Tensor& x) override {
      const Tensor place = x.detach().requires_grad_();
      return grad({sum(fc(place * place))}, {place}, {.create_graph = true})[0] * place;
    }
    void visit(nn::Visitor& v) override { v.child("fc", fc); }
  } forces;
  SGD of_forces(forces.parameters(), {.lr = 0.1});
  const Tensor loss = sum(forces(ones({2, 4})));
  loss.backward();
  of_forces.step();
}

// The graph of the second head holds the leaf until the step.
TEST(Shown, AForwardMayMakeLeaves) {
  struct Detaching : nn::Module {
    Linear body{4, 4}, first{4, 2}, second{4, 2};
    Tensor other;
    Tensor forward(const Tensor& x) override {
      const Tensor h = body(x).detach().requires_grad_();
      other = second(h) * second(h);
      return first(h);
    }
    void visit(nn::Visitor& v) override {
      v.child("body", body);
      v.child("first", first);
      v.child("second", second);
    }
  } net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  learn(sgd, net(ones({2, 4})));
  EXPECT_TRUE(net.other.requires_grad());
}

TEST(Shown, AResidualIsAnInput) {
  struct Residual : nn::Module {
    nn::BatchNorm2d bn{3};
    Tensor forward(const Tensor& x) override { return bn(x * 2.0, {.residual = x}); }
    void visit(nn::Visitor& v) override { v.child("bn", bn); }
  } net;
  const Tensor x = rand({2, 3, 4, 4}).requires_grad_();
  SGD sgd(net.parameters(), {.lr = 0.1});
  learn(sgd, net.forward(x));
  EXPECT_TRUE(x.grad().defined());
}

// A perturbation that the loop changes itself and creates anew after the visit.
TEST(Shown, ABufferMayHaveAGradient) {
  struct Perturbed : nn::Module {
    Linear fc{4, 2};
    Tensor delta = zeros({4}).requires_grad_();
    Tensor forward(const Tensor& x) override { return fc(x + delta); }
    void visit(nn::Visitor& v) override {
      v.child("fc", fc);
      v.buffer("delta", delta);
    }
  } net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  for (int i = 0; i < 2; ++i) {
    net.delta = full({4}, i).requires_grad_();
    learn(sgd, net(ones({2, 4})));
    EXPECT_TRUE(net.delta.grad().defined());
  }
}

// A teacher that is never visited, and parts of the model that are evaluated without gradients.
TEST(Shown, AnEvaluationDoesNotMakeATeacherAMistake) {
  Linear teacher(4, 4);
  Leaky net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  {
    const NoGradGuard no_grad;
    net.shown(ones({2, 4}));
  }
  learn(sgd, teacher(net(ones({2, 4})).matmul(ones({3, 4}))));
}

/// A dropout in a container that visit leaves out.
struct Forgetful : nn::Module {
  nn::Linear layer{4, 4};
  nn::Sequential noise{nn::Dropout(0.5)};
  bool shows_noise = false;
  Tensor forward(const Tensor& x) override { return noise(layer(x)); }
  void visit(nn::Visitor& v) override {
    v.child("layer", layer);
    if (shows_noise) v.child("noise", noise);
  }
};

TEST(Shown, EvalMustReachWhatActsOnTheMode) {
  nn::Sequential net{Forgetful()};
  net(ones({1, 4}));  // in training mode this is not an error
  net.eval();
  EXPECT_ERROR(
      net(ones({1, 4})), Error,
      "Dropout runs in training mode, but Forgetful, which runs it, is in evaluation mode");
  net[0].as<Forgetful>().shows_noise = true;
  EXPECT_ERROR(net(ones({1, 4})), Error, "call eval() again if it came later");
  net.eval();
  EXPECT_EQ(net(ones({1, 4})).to_vector(), net(ones({1, 4})).to_vector());
  net[0].as<Forgetful>().noise.train();  // on purpose
  net(ones({1, 4}));
  nn::Dropout alone(0.5);
  EXPECT_TRUE(alone.is_training());
  nn::Sequential hidden{Forgetful()};
  hidden.eval();
  hidden[0].as<Forgetful>().noise.train();  // a caller of train() does it on purpose
  hidden(ones({1, 4}));
}

TEST(Shown, BuffersAreShown) {
  struct Buffered : nn::Module {
    Linear fc{4, 4};
    Tensor mean = zeros({4}).requires_grad_();
    Tensor forward(const Tensor& x) override { return fc(x) - mean; }
    void visit(nn::Visitor& v) override {
      v.child("fc", fc);
      v.buffer("mean", mean);
    }
  } net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  learn(sgd, net(ones({2, 4})));
}

}  // namespace
}  // namespace rondo::test
