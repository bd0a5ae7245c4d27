// What all composed optimizers share: state, skipped steps, momentum, options.

#include "optim/composed.h"

#include <gmock/gmock.h>

#include <limits>
#include <optional>

#include "autograd/ops/arithmetic.h"
#include "optim/adam_family.h"
#include "optim/adaptive.h"
#include "optim/grad_scaler.h"
#include "optim/layerwise.h"
#include "optim/trajectory.h"
#include "support/errors.h"
#ifdef RONDO_HAS_CUDA
#include "support/simulated_gpu.h"
#include "tensor/cuda.h"
#include "tensor/cuda/stream.h"
#endif

namespace rondo {
namespace {

using namespace optim;
using ::testing::HasSubstr;

template <class O, class Options>
test::MakeOptimizer maker(const Options& options) {
  return [=](const Tensors& p) { return std::make_unique<O>(p, options); };
}

/// All of them, with options that use all of their state.
std::vector<test::MakeOptimizer> all_composed() {
  return {maker<Adagrad>(AdagradOptions{.lr_decay = 0.1, .initial_accumulator_value = 0.5}),
          maker<Adadelta>(AdadeltaOptions{}),
          maker<RMSprop>(RMSpropOptions{.momentum = 0.9, .centered = true}),
          maker<NAdam>(NAdamOptions{.weight_decay = 0.1}),
          maker<RAdam>(RAdamOptions{.decoupled_weight_decay = true}),
          maker<Adamax>(AdamaxOptions{}),
          maker<Lion>(LionOptions{.lr = 0.01}),
          maker<LARS>(LARSOptions{}),
          maker<LAMB>(LAMBOptions{}),
          [](const Tensors& p) { return std::make_unique<Muon>(Tensors{p[1]}); }};
}

TEST(ComposedOptimizer, GoesOnFromItsState) {
  for (const auto& make : all_composed()) test::expect_resumable(make);
}

// In the first step, when the state is made, and in a later one.
TEST(ComposedOptimizer, AStepWithInfiniteGradientsChangesNothing) {
  for (const auto& make : all_composed()) {
    Tensors p = test::hashed_parameters(), q = test::hashed_parameters();
    auto scaled = make(p), plain = make(q);
    SCOPED_TRACE(scaled->type());
    GradScaler scaler(test::test_device(), {.init_scale = 1, .growth_interval = 1000});
    for (std::uint32_t step = 1; step <= 8; ++step) {
      test::set_hashed_gradients(p, step);
      test::set_hashed_gradients(q, step);
      const bool is_bad = step == 1 || step == 4;
      if (is_bad) {
        p[0].set_grad(full_like(p[0], std::numeric_limits<float>::infinity()));
        p[1].set_grad(full_like(p[1], NAN));
      } else {
        for (const Tensor& x : p) {
          if (x.grad().defined()) x.set_grad(x.grad() * scaler.get_scale());
        }
        plain->step();
      }
      scaler.step(*scaled);
      scaler.update();
    }
    EXPECT_EQ(test::flattened(p), test::flattened(q));
    const auto a = scaled->state_dict().tensors, b = plain->state_dict().tensors;
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      EXPECT_EQ(a[i].tensor.to_vector<double>(), b[i].tensor.to_vector<double>()) << a[i].name;
    }
  }
}

// As a captured graph does after a schedule has changed it.
TEST(ComposedOptimizer, TheRateIsReadFromATensor) {
  for (const auto& make : all_composed()) {
    Tensors p = test::hashed_parameters();
    auto optimizer = make(p);
    const auto before = test::flattened(p);
    optimizer->rates().select(0, 0).fill_(0);
    test::set_hashed_gradients(p, 1);
    optimizer->step();
    EXPECT_EQ(test::flattened(p), before) << optimizer->type();
    optimizer->set_lr(0.5);
    optimizer->step();
    EXPECT_NE(test::flattened(p), before) << optimizer->type();
  }
}

#ifdef RONDO_HAS_CUDA
TEST(ComposedOptimizer, TheHostDoesNotWaitForAGpu) {
  std::optional<test::SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace();
  for (const auto& make : all_composed()) {
    Tensors p;
    for (const Tensor& x : test::hashed_parameters())
      p.push_back(x.detach().to(Device::cuda()).requires_grad_());
    auto optimizer = make(p);
    const Tensor found_inf = zeros({}, {.device = Device::cuda()});
    const auto step = [&](std::uint32_t number) {
      test::set_hashed_gradients(p, number);
      const auto before = cuda::synchronizations();
      optimizer->step_unless(found_inf);
      EXPECT_EQ(cuda::synchronizations(), before) << optimizer->type();
    };
    step(1);
    step(2);
  }
}
#endif

TEST(ComposedOptimizer, GroupsHaveTheirOwnOptionsAndRates) {
  Tensors p = test::hashed_parameters(), q = test::hashed_parameters();
  RMSprop both({{{p[0]}, {.lr = 0.1}}, {{p[1], p[2]}, {.lr = 0.2, .momentum = 0.5}}});
  RMSprop first({q[0]}, {.lr = 0.1}), second({q[1], q[2]}, {.lr = 0.4, .momentum = 0.5});
  both.set_lr(1, 0.4);
  for (std::uint32_t step = 1; step <= 5; ++step) {
    test::set_hashed_gradients(p, step);
    test::set_hashed_gradients(q, step);
    both.step();
    first.step();
    second.step();
  }
  EXPECT_EQ(test::flattened(p), test::flattened(q));
}

TEST(ComposedOptimizer, FollowsParametersToAnotherLayout) {
  const Tensor gradient = test::hashed_tensor(1, 1, {2, 3, 4, 5});
  Tensors p{test::hashed_tensor(1, 0, {2, 3, 4, 5}).requires_grad_()},
      q{p[0].detach().clone().requires_grad_()};
  NAdam a(p), b(q);
  for (int step = 0; step < 4; ++step) {
    if (step == 2) q[0].set_data(q[0].detach().contiguous(MemoryFormat::channels_last).clone());
    p[0].set_grad(gradient.clone());
    q[0].set_grad(gradient.clone());
    a.step();
    b.step();
  }
  ASSERT_TRUE(q[0].is_contiguous(MemoryFormat::channels_last));
  EXPECT_EQ(p[0].to_vector(), q[0].to_vector());
}

TEST(ComposedOptimizer, MomentumIsTheOptionOfThatNameOrBeta1) {
  Tensors p = test::hashed_parameters();
  RMSprop rmsprop(p, {.momentum = 0.5});
  rmsprop.set_momentum(0, 0.25);
  EXPECT_EQ(rmsprop.momentum(), 0.25);
  EXPECT_EQ(rmsprop.rates().to_vector<double>(), (std::vector<double>{0.01, 0.25}));
  Lion lion(p);
  EXPECT_EQ(lion.momentum(), 0.9);
  EXPECT_ERROR(lion.set_momentum(0, 1), Error, "Lion: beta1 is 1, but must be in [0, 1)");
  Adagrad adagrad(p);
  EXPECT_EQ(adagrad.momentum(), 0);
  EXPECT_ERROR(adagrad.set_momentum(0, 0.5), Error,
               "Adagrad.set_momentum: Adagrad has no momentum; schedules that cycle the momentum "
               "need cycle_momentum = false");
}

TEST(ComposedOptimizer, OptionsAreSavedAndChecked) {
  Tensors p = test::hashed_parameters();
  RMSprop saved(p, {.lr = 0.5, .alpha = 0.25, .centered = true}), loaded(p);
  auto state = saved.state_dict();
  loaded.load_state_dict(state);
  EXPECT_EQ(loaded.state_dict().groups, state.groups);
  EXPECT_EQ(state.groups[0].options.at("alpha"), 0.25);
  EXPECT_EQ(state.groups[0].options.at("centered"), 1);
  state.groups[0].options["eps"] = 7;
  state.groups[0].options["alpha"] = -1;
  EXPECT_ERROR(loaded.load_state_dict(state), Error, "RMSprop: alpha is -1");
  EXPECT_EQ(loaded.state_dict().groups[0].options.at("eps"), 1e-8);
  state.groups[0].options.erase("alpha");
  EXPECT_ERROR(loaded.load_state_dict(state), Error, "the state has no option alpha");
}

TEST(ComposedOptimizer, OnlyElementwiseOnesMayBeSplit) {
  std::string whole;
  for (const auto& make : all_composed()) {
    const auto optimizer = make(test::hashed_parameters());
    if (!optimizer->is_elementwise()) whole += std::string(optimizer->type()) + " ";
  }
  EXPECT_EQ(whole, "LARS LAMB Muon ");
}

}  // namespace
}  // namespace rondo
