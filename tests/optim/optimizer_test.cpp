// The common behaviour of all optimizers: groups, rates, layouts, state, and errors.

#include "optim/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/adaptive.h"
#include "optim/layerwise.h"
#include "optim/lr_schedule.h"
#include "optim/plateau.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/hashed.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

using namespace optim;
using test::message_of;
using ::testing::HasSubstr;

TEST(Optimizer, TakesGroupsInBraces) {
  Tensors p = test::hashed_parameters();
  SGD optimizer({{{p[0]}, {.lr = 0.5}}, {{p[1], p[2]}, {.lr = 0.25, .momentum = 0.9}}});
  ASSERT_EQ(optimizer.num_groups(), 2u);
  EXPECT_EQ(optimizer.lr(0), 0.5);
  EXPECT_EQ(optimizer.lr(1), 0.25);
  EXPECT_EQ(optimizer.momentum(1), 0.9);
  EXPECT_EQ(optimizer.parameters().size(), 3u);
}

TEST(Optimizer, RatesAreReadFromATensor) {
  Tensors p{ones({3}).requires_grad_()};
  SGD optimizer(p, {.lr = 0.5, .momentum = 0.9});
  Tensor rates = optimizer.rates();
  EXPECT_EQ(rates.to_vector<double>(), (std::vector<double>{0.5, 0.9}));
  optimizer.set_lr(0.25);
  optimizer.set_momentum(0, 0.8);
  EXPECT_EQ(rates.to_vector<double>(), (std::vector<double>{0.25, 0.8}));
  EXPECT_TRUE(optimizer.rates().is_same(rates));
  Adam adam(p, {.lr = 0.5});
  EXPECT_EQ(adam.rates().to_vector<double>(), (std::vector<double>{0.5, 0.9}));
  optim::OptimizerState state = adam.state_dict();
  state.groups[0].options["beta1"] = 0.7;
  state.groups[0].options["lr"] = 0.1;
  adam.load_state_dict(state);
  EXPECT_EQ(adam.rates().to_vector<double>(), (std::vector<double>{0.1, 0.7}));
  p[0].set_grad(ones({3}));
  optimizer.step();
  EXPECT_EQ(p[0].to_vector(), (std::vector<float>{0.75f, 0.75f, 0.75f}));
}

TEST(Optimizer, StepBumpsVersionsAndZeroGradUndefines) {
  Tensors p{ones({3}).requires_grad_(), ones({2}).requires_grad_()};
  SGD optimizer(p, {.lr = 0.5});
  p[0].set_grad(ones({3}));
  auto before = p[0].version(), other = p[1].version();
  optimizer.step();
  EXPECT_GT(p[0].version(), before);
  EXPECT_EQ(p[1].version(), other);
  EXPECT_EQ(p[1].to_vector(), (std::vector<float>{1, 1}));
  optimizer.zero_grad();
  EXPECT_FALSE(p[0].grad().defined());
}

TEST(Optimizer, GradientMayHaveAnotherLayout) {
  Dims shape{2, 3, 4, 5};
  Tensor dense = test::hashed_tensor(1, 0, shape), gradient = test::hashed_tensor(1, 1, shape);
  Tensors a{dense.clone().requires_grad_()};
  Tensors b{dense.contiguous(MemoryFormat::channels_last).clone().requires_grad_()};
  a[0].set_grad(gradient);
  b[0].set_grad(gradient.clone());
  SGD first(a, {.lr = 0.1, .momentum = 0.9}), second(b, {.lr = 0.1, .momentum = 0.9});
  for (int i = 0; i < 3; ++i) {
    first.step();
    second.step();
  }
  ASSERT_TRUE(b[0].is_contiguous(MemoryFormat::channels_last));
  EXPECT_EQ(a[0].to_vector(), b[0].to_vector());
}

TEST(Optimizer, RefusesParametersItCannotTrain) {
  Tensor p = ones({3}).requires_grad_();
  EXPECT_THAT(message_of([&] { SGD o(Tensors{}); }), HasSubstr("no parameters"));
  EXPECT_THAT(message_of([&] { SGD o({p, p}); }), HasSubstr("given twice"));
  EXPECT_THAT(message_of([&] { SGD o({{{p}, {}}, {{p}, {}}}); }), HasSubstr("given twice"));
  EXPECT_THAT(message_of([&] { SGD o({Tensor()}); }), HasSubstr("undefined"));
  EXPECT_THROW(SGD({zeros({2}, {.dtype = i64})}), DTypeError);
  EXPECT_THROW(SGD({zeros({4, 4}).t()}), ShapeError);
  Tensor computed = p.exp();
  EXPECT_THAT(message_of([&] { SGD o({computed}); }), HasSubstr("not a leaf"));
  SGD optimizer({p});
  EXPECT_THAT(message_of([&] { optimizer.set_lr(1, 0.1); }), HasSubstr("group 1 does not exist"));
  EXPECT_THAT(message_of([&] { optimizer.set_lr(std::nan("")); }), HasSubstr("lr is nan"));
  const auto negative = [&] { optimizer.set_lr(-1); };
  EXPECT_THROW(negative(), Error);
  EXPECT_EQ(message_of(negative), "SGD: lr is -1, but must be finite and not negative");
  EXPECT_THAT(message_of([&] {
                SGD o({{{p}, {}}, {{ones({1})}, {.lr = -1}}});
              }),
              HasSubstr("lr is -1"));
  EXPECT_THAT(message_of([&] { Adam o({{{p}, {.eps = -1}}}); }), HasSubstr("eps is -1"));
  EXPECT_THAT(message_of([&] { Adam(Tensors{p}).set_momentum(0, 1); }), HasSubstr("betas[0]"));
  EXPECT_EQ(optimizer.lr(), 0.001);
}

TEST(Optimizer, AParameterThatTheModelHasReplacedIsNamed) {
  nn::Linear layer(2, 1);
  SGD optimizer(layer.parameters());
  const auto learn = [&] {
    optimizer.zero_grad();
    layer(ones({1, 2})).sum().backward();
    optimizer.step();
  };
  learn();
  layer.weight.requires_grad_(false);
  learn();  // frozen, but still a parameter of the model
  layer.weight.requires_grad_();
  {
    NoGradGuard guard;
    layer.weight = clamp(layer.weight, -0.1, 0.1);
  }
  EXPECT_THAT(message_of(learn),
              HasSubstr("SGD: parameter 0 of group 0, of shape [1, 2], is held by this optimizer "
                        "alone: the model is gone or has another tensor in its place"));
}

TEST(Optimizer, AFrozenParameterMayBeTheOptimizersAlone) {
  const Tensor p = ones({2}).requires_grad_();
  SGD optimizer({p, ones({2})});
  p.set_grad(ones({2}));
  optimizer.step();
  EXPECT_LT(p.to_vector()[0], 1);
}

TEST(Optimizer, AStepThatIsRefusedChangesNothing) {
  const Tensor p = ones({2}).requires_grad_(), q = ones({2}).requires_grad_();
  SGD optimizer({{{p}, {}}, {{q}, {}}});
  p.set_grad(ones({2}));
  q.set_grad(ones({2}));
  autograd_meta(q).grad = ones({3});  // set_grad would refuse it
  EXPECT_THROW(optimizer.step(), ShapeError);
  EXPECT_EQ(p.to_vector(), (std::vector<float>{1, 1}));
}

TEST(Optimizer, StateMustFit) {
  Tensors p = test::hashed_parameters();
  test::set_hashed_gradients(p, 1);
  Adam adam(p);
  adam.step();
  auto good = adam.state_dict();
  auto load = [&](auto change) {
    auto state = good;
    change(state);
    return message_of([&] { adam.load_state_dict(state); });
  };
  EXPECT_EQ(load([](auto&) {}), "");
  EXPECT_THAT(load([](auto& s) { s.type = "SGD"; }), HasSubstr("is that of SGD"));
  EXPECT_THAT(load([](auto& s) { s.groups.push_back(s.groups[0]); }),
              HasSubstr("2 parameter groups"));
  EXPECT_THAT(load([](auto& s) { s.groups[0].params.pop_back(); }), HasSubstr("2 parameters"));
  EXPECT_THAT(load([](auto& s) { s.groups[0].options.erase("beta1"); }), HasSubstr("beta1"));
  EXPECT_THAT(load([](auto& s) { s.groups[0].options["beta1"] = 2; }), HasSubstr("betas[0]"));
  EXPECT_THAT(load([](auto& s) { s.groups[0].options["lr"] = NAN; }), HasSubstr("is nan"));
  EXPECT_THAT(load([](auto& s) { s.tensors[1].name = "exp_avg"; }), HasSubstr("NUMBER.NAME"));
  EXPECT_THAT(load([](auto& s) { s.tensors[1].name = "0.velocity"; }), HasSubstr("is not a state"));
  EXPECT_THAT(load([](auto& s) { s.tensors[1].name = "3.exp_avg"; }), HasSubstr("only 3"));
  EXPECT_THAT(load([](auto& s) { s.tensors[1].name = s.tensors[2].name; }), HasSubstr("twice"));
  EXPECT_THAT(load([](auto& s) { s.tensors.erase(s.tensors.begin()); }),
              HasSubstr("there is \"0.exp_avg\", but no \"0.step\""));
  const auto is_second_moment = [](const auto& t) { return t.name == "0.exp_avg_sq"; };
  EXPECT_THAT(load([&](auto& s) { std::erase_if(s.tensors, is_second_moment); }),
              HasSubstr("there is \"0.step\", but no \"0.exp_avg_sq\""));
  EXPECT_THAT(load([](auto& s) { s.tensors[1].tensor = ones({8}); }), HasSubstr("[8]"));
}

TEST(Optimizer, RefusedStateChangesNothing) {
  Tensors p = test::hashed_parameters();
  SGD optimizer({{{p[0]}, {.lr = 0.5}}, {{p[1], p[2]}, {.lr = 0.25}}});
  auto state = optimizer.state_dict();
  state.groups[0].options["weight_decay"] = 1;
  state.groups[1].options["momentum"] = -1;
  EXPECT_THROW(optimizer.load_state_dict(state), Error);
  EXPECT_EQ(optimizer.state_dict().groups[0].options.at("weight_decay"), 0);
}

template <class O>
concept StepsFrom = requires(SGD optimizer, O argument) {
  optimizer.step(argument);
};
static_assert(!StepsFrom<Tensor>, "a loss is not a closure");
static_assert(!std::is_constructible_v<Betas, double> &&
              std::is_constructible_v<Betas, double, double>);

TEST(Optimizer, BetasAreTwoNumbers) {
  const auto [beta1, beta2] = AdamOptions{.betas = {0.5, 0.75}}.betas;
  EXPECT_EQ(beta1 + beta2, 1.25);
}

TEST(Optimizer, StepsWithAClosure) {
  const Tensor p = ones({2}).requires_grad_();
  SGD sgd({p}, {.lr = 0.5});
  const NoGradGuard no_grad;
  const Tensor loss = sgd.step([&] {
    sgd.zero_grad();
    const Tensor y = (p * p).sum();
    y.backward();
    return y;
  });
  EXPECT_EQ(loss.item(), 2);
  EXPECT_EQ(p.detach().to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_ERROR(sgd.step(nullptr), Error, "SGD.step: the closure is empty");
}

/// After a group is added, the optimizer goes on like one that had it from the start and whose
/// second parameter had no gradients until then.
template <class O, class Options>
void expect_group_can_be_added(Options first, Options second) {
  const auto start = [] { return tensor({1.F, -2.F, 3.F}).requires_grad_(); };
  const Tensor a = start(), b = start(), c = start(), d = start();
  O one({{{a}, first}, {{b}, second}}), two({{{c}, first}});
  for (int step = 0; step < 5; ++step) {
    if (step == 2) two.add_param_group({{d}, second});
    for (const Tensor& p : step < 2 ? Tensors{a, c} : Tensors{a, b, c, d})
      p.set_grad(p.detach() * 0.5 + 1.0);
    one.step();
    two.step();
  }
  EXPECT_TRUE(test::identical(a.detach(), c.detach())) << one.type();
  EXPECT_TRUE(test::identical(b.detach(), d.detach())) << one.type();
  EXPECT_EQ(one.state_dict().groups, two.state_dict().groups);
  EXPECT_ERROR(two.add_param_group({{a * 2.0}, second}), Error, "is not a leaf");
  EXPECT_ERROR(two.add_param_group({{c}, second}), Error, "parameter 0 of group 2 was given twice");
  Options wrong = second;
  wrong.lr = -1;
  EXPECT_ERROR(two.add_param_group({{start()}, wrong}), Error, "lr is -1");
  EXPECT_EQ(two.num_groups(), 2U);
  two.step();
}

TEST(Optimizer, AGroupCanBeAdded) {
  expect_group_can_be_added<SGD, SgdOptions>({.lr = 0.1, .momentum = 0.9}, {.lr = 0.01});
  expect_group_can_be_added<Adam, AdamOptions>({.lr = 0.1}, {.lr = 0.01, .amsgrad = true});
  expect_group_can_be_added<AdamW, AdamWOptions>({.lr = 0.1}, {.lr = 0.01});
  expect_group_can_be_added<RMSprop, RMSpropOptions>({.lr = 0.1}, {.lr = 0.01, .centered = true});
  Muon muon({ones({2, 2}).requires_grad_()});
  EXPECT_ERROR(muon.add_param_group({{ones({2}).requires_grad_()}}), ShapeError,
               "must be a matrix");
  SGD sgd({ones({2}).requires_grad_()}, {.lr = 1});
  StepLR schedule(sgd, {.step_size = 1});
  sgd.add_param_group({{ones({2}).requires_grad_()}, {.lr = 1}});
  EXPECT_ERROR(schedule.step(), Error, "StepLR: the optimizer has 2 groups, but had 1");
  EXPECT_EQ(schedule.last_step(), 0);
  SGD other({ones({2}).requires_grad_()}, {.lr = 1});
  ReduceLROnPlateau plateau(other, {.patience = 0});
  SequentialLR sequence({std::make_shared<StepLR>(other, StepLROptions{.step_size = 1}),
                         std::make_shared<StepLR>(other, StepLROptions{.step_size = 1})},
                        {1});
  other.add_param_group({{ones({2}).requires_grad_()}, {.lr = 1}});
  EXPECT_ERROR(plateau.step(1.0), Error, "ReduceLROnPlateau: the optimizer has 2 groups");
  EXPECT_ERROR(sequence.step(), Error, "SequentialLR: the optimizer has 2 groups");
  const auto old = std::make_shared<StepLR>(other, StepLROptions{.step_size = 1});
  other.add_param_group({{ones({2}).requires_grad_()}, {.lr = 1}});
  EXPECT_ERROR(ChainedScheduler({old}), Error, "StepLR: the optimizer has 3 groups, but had 2");
}

}  // namespace
}  // namespace rondo
