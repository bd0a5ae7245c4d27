// Every schedule against PyTorch's rates over 200 steps; state; errors.

#include "optim/lr_schedule.h"

#include <gmock/gmock.h>

#include <memory>

#include "optim/sgd.h"
#include "support/golden.h"
#include "support/hashed.h"

namespace rondo {
namespace {

using namespace optim;
using SchedulePtr = std::shared_ptr<LRSchedule>;
using Make = std::function<SchedulePtr(Optimizer&)>;

template <class S, class... Args>
Make make(Args... args) {
  return [=](Optimizer& o) { return std::make_shared<S>(o, args...); };
}

struct Row {
  const char* name;
  Make make;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all{
      {"step", make<StepLR>(StepLROptions{.step_size = 30})},
      {"step.gamma", make<StepLR>(StepLROptions{.step_size = 7, .gamma = 0.9})},
      {"multistep", make<MultiStepLR>(MultiStepLROptions{.milestones = {20, 50, 50, 120}})},
      {"exponential", make<ExponentialLR>(ExponentialLROptions{.gamma = 0.98})},
      {"linear", make<LinearWarmup>(LinearWarmupOptions{})},
      {"linear.long",
       make<LinearLR>(LinearLROptions{.start_factor = 0.01, .end_factor = 0.7, .total_iters = 90})},
      {"cosine", make<CosineAnnealingLR>(CosineAnnealingLROptions{.t_max = 200})},
      {"cosine.again",
       make<CosineAnnealingLR>(CosineAnnealingLROptions{.t_max = 30, .eta_min = 0.01})},
      {"constant", make<ConstantLR>(ConstantLROptions{})},
      {"constant.long", make<ConstantLR>(ConstantLROptions{.factor = 0.01, .total_iters = 90})},
      {"polynomial", make<PolynomialLR>(PolynomialLROptions{})},
      {"polynomial.long",
       make<PolynomialLR>(PolynomialLROptions{.total_iters = 150, .power = 2.5})},
      {"multiplicative",
       make<MultiplicativeLR>([](std::int64_t step) { return 1 - 1.0 / (1.0 + double(step)); })},
      {"lambda", make<LambdaLR>([](std::int64_t step) { return 1.0 / (1.0 + double(step)); })},
      {"chained",
       [](Optimizer& o) {
         return std::make_shared<ChainedScheduler>(std::vector<SchedulePtr>{
             std::make_shared<LinearLR>(o, LinearLROptions{.total_iters = 20}),
             std::make_shared<ExponentialLR>(o, ExponentialLROptions{.gamma = 0.99}),
             std::make_shared<StepLR>(o, StepLROptions{.step_size = 50})});
       }},
      {"sequential", [](Optimizer& o) {
         return std::make_shared<SequentialLR>(
             std::vector<SchedulePtr>{
                 std::make_shared<LinearLR>(o, LinearLROptions{.total_iters = 10}),
                 std::make_shared<CosineAnnealingLR>(o, CosineAnnealingLROptions{.t_max = 100}),
                 std::make_shared<ExponentialLR>(o, ExponentialLROptions{.gamma = 0.97})},
             std::vector<std::int64_t>{10, 110});
       }}};
  return all;
}

TEST(LRSchedule, FollowsPyTorch) {
  test::Golden golden("optim.txt");
  for (const Row& row : rows()) {
    Tensors params = test::hashed_parameters();
    SGD optimizer({{{params[0]}, {.lr = 0.4}}, {{params[1], params[2]}, {.lr = 0.1}}});
    SchedulePtr schedule = row.make(optimizer);
    auto want = golden[std::string("lr.") + row.name].to_vector<double>();
    ASSERT_EQ(want.size(), 201u);
    for (std::size_t step = 0; step <= 200; ++step) {
      // The rounding errors of the recursion grow with the steps; near a zero they count
      // absolutely.
      EXPECT_NEAR(optimizer.lr(0), want[step], 1e-12 * want[step] + 1e-15)
          << row.name << " step " << step;
      if (step < 200) schedule->step();
    }
    EXPECT_EQ(schedule->last_step(), 200) << row.name;
  }
}

TEST(LRSchedule, GoesOnFromItsState) {
  for (const Row& row : rows()) {
    Tensors p = test::hashed_parameters(), q = test::hashed_parameters();
    SGD first({{{p[0]}, {.lr = 0.4}}, {{p[1], p[2]}, {.lr = 0.1}}});
    SGD second({{{q[0]}, {.lr = 0.4}}, {{q[1], q[2]}, {.lr = 0.1}}});
    SchedulePtr a = row.make(first), b = row.make(second);
    for (int i = 0; i < 60; ++i) a->step();
    second.load_state_dict(first.state_dict());
    b->load_state_dict(a->state_dict());
    for (int i = 0; i < 60; ++i) {
      a->step();
      b->step();
      ASSERT_EQ(first.lr(0), second.lr(0)) << row.name << " step " << i;
      ASSERT_EQ(first.lr(1), second.lr(1)) << row.name << " step " << i;
    }
    EXPECT_EQ(a->state_dict(), b->state_dict()) << row.name;
  }
}

TEST(LRSchedule, ChainsMayFollowOneAnother) {
  SGD o(test::hashed_parameters(), {.lr = 1});
  EXPECT_THROW(ExponentialLR(o, {}), Error);
  auto halve = std::make_shared<ExponentialLR>(o, ExponentialLROptions{.gamma = 0.5});
  auto third = std::make_shared<ChainedScheduler>(std::vector<SchedulePtr>{
      std::make_shared<ExponentialLR>(o, ExponentialLROptions{.gamma = 0.25}),
      std::make_shared<LambdaLR>(o, [](std::int64_t) { return 8.0; }),
      std::make_shared<StepLR>(o, StepLROptions{.step_size = 2, .gamma = 0.5})});
  SequentialLR schedule({halve, third}, {3});
  std::vector<double> rates;
  for (int i = 0; i < 6; ++i) {
    rates.push_back(o.lr());
    schedule.step();
  }
  EXPECT_EQ(rates, (std::vector<double>{1, 0.5, 0.25, 8, 8, 4}));
}

TEST(LRSchedule, RestoresSettings) {
  SGD optimizer(test::hashed_parameters(), {.lr = 1});
  StepLR saved(optimizer, {.step_size = 2, .gamma = 0.5}), other(optimizer, {.step_size = 9});
  other.load_state_dict(saved.state_dict());
  optimizer.set_lr(1);
  other.step();
  other.step();
  EXPECT_EQ(optimizer.lr(), 0.5);
}

TEST(LRSchedule, RefusesSettingsThatMakeNoSense) {
  SGD o(test::hashed_parameters());
  EXPECT_THROW(StepLR(o, {.step_size = 0}), Error);
  EXPECT_THROW(LinearLR(o, {.start_factor = 0}), Error);
  EXPECT_THROW(LinearLR(o, {.end_factor = 2}), Error);
  EXPECT_THROW(LinearLR(o, {.total_iters = 0}), Error);
  EXPECT_THROW(CosineAnnealingLR(o, {.t_max = 0}), Error);
  EXPECT_THROW(LambdaLR(o, nullptr), Error);
  EXPECT_THROW(MultiplicativeLR(o, nullptr), Error);
  EXPECT_THROW(ConstantLR(o, {.factor = 0}), Error);
  EXPECT_THROW(ConstantLR(o, {.total_iters = 0}), Error);
  EXPECT_THROW(PolynomialLR(o, {.total_iters = 0}), Error);
  EXPECT_THROW(ChainedScheduler({}), Error);
  auto one = std::make_shared<LinearLR>(o);
  EXPECT_THROW(SequentialLR({one}, {3}), Error);
  EXPECT_THROW(SequentialLR({one, one, one}, {5, 3}), Error);
  EXPECT_THROW(ChainedScheduler({one, nullptr}), Error);
  SGD another(test::hashed_parameters());
  EXPECT_THROW(ChainedScheduler({one, std::make_shared<LinearLR>(another)}), Error);
}

TEST(LRSchedule, NoStepUsesANegativeRate) {
  Tensors p{ones({2}).requires_grad_()};
  p[0].set_grad(ones({2}));
  SGD optimizer(p, {.lr = 1});
  LambdaLR schedule(optimizer, [](std::int64_t step) { return 1.0 - double(step); });
  schedule.step();
  optimizer.step();  // with 0
  schedule.step();   // the end of training: a negative rate that no step uses
  try {
    optimizer.step();
    FAIL() << "went uphill";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "SGD: lr of group 0 is -1, but must not be negative; a schedule has set it, so "
                 "check its settings and how often it steps");
  }
  EXPECT_EQ(p[0].to_vector(), (std::vector<float>{1, 1}));
}

TEST(LRSchedule, MayMissZeroByRounding) {
  for (int iters = 1; iters < 40; ++iters) {
    Tensors p = test::hashed_parameters();
    SGD optimizer(p, {.lr = 0.1});
    LinearLR schedule(optimizer, {.end_factor = 0, .total_iters = iters});
    for (int i = 0; i <= iters; ++i) schedule.step();
    EXPECT_NEAR(optimizer.lr(), 0, 1e-15);
    EXPECT_NO_THROW(optimizer.step()) << iters;
  }
}

TEST(LRSchedule, RefusesStateThatDoesNotFit) {
  SGD o(test::hashed_parameters());
  StepLR schedule(o, {.step_size = 3});
  auto message = [&](auto change) -> std::string {
    ScheduleState state = schedule.state_dict();
    change(state);
    try {
      schedule.load_state_dict(state);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(message([](auto&) {}), "");
  EXPECT_THAT(message([](auto& s) { s.type = "LinearLR"; }), HasSubstr("that of LinearLR"));
  EXPECT_THAT(message([](auto& s) { s.values.erase("gamma"); }), HasSubstr("no gamma"));
  EXPECT_THAT(message([](auto& s) { s.values["step_size"] = {0.5}; }), HasSubstr("not an integer"));
  EXPECT_THAT(message([](auto& s) { s.values["step_size"] = {0}; }), HasSubstr("at least 1"));
  EXPECT_THAT(message([](auto& s) { s.values["gamma"] = {1, 2}; }), HasSubstr("2 values"));
  EXPECT_THAT(message([](auto& s) { s.values["base_lrs"] = {1, 2}; }), HasSubstr("2 parameter"));
}

}  // namespace
}  // namespace rondo
