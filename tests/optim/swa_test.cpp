// AveragedModel, update_bn and SWALR against PyTorch.

#include "optim/swa.h"

#include <algorithm>
#include <memory>

#include "nn/containers.h"
#include "nn/linear.h"
#include "optim/lr_schedule.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/hashed.h"
#include "support/support.h"

namespace rondo {
namespace {

using namespace optim;

nn::Sequential small_net() {
  return nn::Sequential(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
}

/// The model of update `step` in PyTorch's run.
void set_model(nn::Sequential& net, std::uint32_t step) {
  const NoGradGuard no_grad;
  const auto parameters = net.parameters();
  for (std::uint32_t k = 0; k < parameters.size(); ++k)
    parameters[k].copy_(test::hashed_tensor(k, step, parameters[k].shape()));
  net(test::hashed_tensor(20, step, {6, 3}));  // updates the running statistics
}

void expect_averages(const std::string& name, const AveragedModelOptions& options) {
  test::Golden golden("optim.txt");
  nn::Sequential net = small_net();
  AveragedModel average(net, options);
  for (std::uint32_t step = 0; step < 5; ++step) {
    set_model(net, step);
    average.update_parameters(net);
  }
  EXPECT_EQ(average.n_averaged(), 5);
  for (const auto& [key, tensor] : average.state_dict()) {
    // PyTorch averages the counter, too, and rounds it down at each update.
    if (options.use_buffers && key == "module.1.num_batches_tracked") continue;
    EXPECT_TRUE(test::all_close(tensor.detach(), golden[name + "." + key], 1e-6, 1e-6)) << key;
  }
  std::vector<Tensor> batches;
  for (std::uint32_t step = 0; step < 3; ++step)
    batches.push_back(test::hashed_tensor(21, step, {6, 3}));
  update_bn(batches, average);
  for (const auto& [key, tensor] : average.named_buffers()) {
    if (!key.starts_with("module.1.")) continue;
    const std::string updated = name + ".updated." + key.substr(9);
    EXPECT_TRUE(test::all_close(tensor, golden[updated], 1e-6, 1e-5)) << updated;
  }
}

TEST(AveragedModel, FollowsPyTorch) {
  expect_averages("average.equal", {});
  expect_averages("average.ema", {.multi_avg_fn = get_ema_multi_avg_fn(0.75)});
  expect_averages("average.buffers",
                  {.multi_avg_fn = get_ema_multi_avg_fn(0.75), .use_buffers = true});
}

TEST(AveragedModel, HasItsOwnWeightsAndIsSavedWithItsCount) {
  nn::Sequential net = small_net();
  AveragedModel average(net);
  set_model(net, 1);
  average.update_parameters(net);
  set_model(net, 2);
  average.update_parameters(net);
  AveragedModel loaded(net);
  loaded.load_state_dict(average.state_dict());
  EXPECT_EQ(loaded.n_averaged(), 2);
  set_model(net, 3);
  average.update_parameters(net);
  loaded.update_parameters(net);
  EXPECT_EQ(test::flattened(average.parameters()), test::flattened(loaded.parameters()));
  EXPECT_NE(test::flattened(average.parameters()), test::flattened(net.parameters()));
  average.eval();
  EXPECT_EQ(average(ones({2, 3})).shape(), (Dims{2, 2}));
}

TEST(AveragedModel, RefusesAnotherModel) {
  nn::Sequential net = small_net(), wider(nn::Linear(3, 5), nn::BatchNorm1d(5), nn::Linear(5, 2)),
                 shorter(nn::Linear(3, 4));
  AveragedModel average(net);
  EXPECT_ERROR(average.update_parameters(wider), ShapeError,
               "AveragedModel.update_parameters: 0.weight has shape [5, 3], but its average has");
  EXPECT_ERROR(average.update_parameters(shorter), Error, "has 2 parameters or buffers");
  EXPECT_ERROR(get_ema_multi_avg_fn(1.5), Error, "decay is 1.5, but must be in [0, 1]");
}

TEST(UpdateBn, RestoresModesAndMomenta) {
  nn::Sequential net = small_net();
  net.eval();
  std::vector<Tensor> batches{ones({4, 3})};
  update_bn(batches, net);
  for (const auto& [name, module] : net.named_modules()) {
    EXPECT_FALSE(module->is_training()) << name;
    if (const auto* norm = dynamic_cast<nn::BatchNorm*>(module)) {
      EXPECT_EQ(norm->options.momentum, 0.1);
      EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
    }
  }
}

/// The rates of ten steps of another schedule and then of SWALR, also with a resume in the middle.
void expect_swa_rates(const std::string& name, const SWALROptions& options) {
  const auto want = test::Golden("optim.txt")["lr." + name].to_vector<double>();
  const Tensors p = test::hashed_parameters();
  SGD optimizer({{{p[0]}, {.lr = 0.4}}, {{p[1], p[2]}, {.lr = 0.1}}});
  ExponentialLR before(optimizer, {.gamma = 0.9});
  std::unique_ptr<SWALR> schedule;
  for (std::size_t step = 0; step < 40; ++step) {
    for (std::size_t g = 0; g < 2; ++g)
      EXPECT_NEAR(optimizer.lr(g), want.at(g * 40 + step), 1e-12) << name << ' ' << step;
    if (step == 10) schedule = std::make_unique<SWALR>(optimizer, options);
    if (step == 15) {
      const auto rates = optimizer.state_dict();
      auto other = std::make_unique<SWALR>(optimizer, SWALROptions{.swa_lr = 1});
      optimizer.load_state_dict(rates);
      other->load_state_dict(schedule->state_dict());
      schedule = std::move(other);
    }
    if (schedule) {
      schedule->step();
    } else {
      before.step();
    }
  }
}

TEST(SWALR, FollowsPyTorch) {
  expect_swa_rates("swa", {.swa_lr = 0.05});
  expect_swa_rates(
      "swa.linear",
      {.swa_lr = std::vector{0.05, 0.2}, .anneal_epochs = 15, .anneal_strategy = Anneal::linear});
  expect_swa_rates("swa.at_once", {.swa_lr = 0.05, .anneal_epochs = 0});
}

/// Schedules that know only the current rate go on with it.
TEST(SWALR, AfterAnotherScheduleGoesOnWithTheRate) {
  const auto rates = [](const auto& make_second) {
    SGD o(test::hashed_parameters(), {.lr = 0.5});
    auto first = std::make_shared<CosineAnnealingLR>(
        o, CosineAnnealingLROptions{.t_max = 5, .eta_min = 0.01});
    SequentialLR schedule({first, make_second(o)}, {4});
    std::vector<double> all;
    for (int step = 0; step < 9; ++step, schedule.step())
      if (step >= 3) all.push_back(o.lr());
    return all;
  };
  const auto expect = [](const std::vector<double>& mine, const std::vector<double>& pytorchs) {
    ASSERT_EQ(mine.size(), pytorchs.size());
    for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_NEAR(mine[i], pytorchs[i], 1e-15);
  };
  expect(rates([](SGD& o) {
           return std::make_shared<SWALR>(o, SWALROptions{.swa_lr = 0.05, .anneal_epochs = 4});
         }),
         {0.1792908363781379, 0.1792908363781379, 0.16035663176319978, 0.11464541818906894,
          0.06893420461493811, 0.05});
  expect(rates([](SGD& o) {
           return std::make_shared<SWALR>(o, SWALROptions{.swa_lr = 0.05, .anneal_epochs = 0});
         }),
         {0.1792908363781379, 0.05, 0.05, 0.05, 0.05, 0.05});
  expect(rates([](SGD& o) {
           return std::make_shared<MultiplicativeLR>(
               o, [](std::int64_t e) { return 1.0 / static_cast<double>(e + 2); });
         }),
         {0.1792908363781379, 0.08964541818906895, 0.02988180606302298, 0.007470451515755745,
          0.0014940903031511492, 0.0002490150505251915});
}

TEST(SWALR, RefusesSettingsThatMakeNoSense) {
  SGD o(test::hashed_parameters());
  EXPECT_ERROR(SWALR(o, {.swa_lr = 1, .anneal_epochs = -1}), Error,
               "SWALR: anneal_epochs is -1, but must not be negative");
  EXPECT_ERROR(SWALR(o, {.swa_lr = std::vector{1.0, 2.0}}), Error,
               "SWALR: swa_lr has 2 values, the optimizer 1 groups");
}

}  // namespace
}  // namespace rondo
