#pragma once
// Runs an optimizer for 200 steps of hashed gradients and compares with PyTorch's run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "optim/lr_schedule.h"
#include "support/golden.h"
#include "support/hashed.h"

namespace rondo::test {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const Tensors& params)>;

/// max|ours - theirs| <= tolerance * max|theirs|, at every stored step.
inline void expect_trajectory(
    const std::string& name, const MakeOptimizer& make, double tolerance = 1e-5, DType dtype = f32,
    const std::function<std::unique_ptr<optim::LRSchedule>(optim::Optimizer&)>& make_schedule =
        {}) {
  static const Golden golden("optim.txt");
  Tensors params = hashed_parameters(dtype);
  auto optimizer = make(params);
  auto schedule = make_schedule ? make_schedule(*optimizer) : nullptr;
  int compared = 0;
  for (std::uint32_t step = 1; step <= 200; ++step) {
    set_hashed_gradients(params, step);
    optimizer->step();
    if (schedule) schedule->step();
    std::string key = name + "." + std::to_string(step);
    if (!golden.has(key)) continue;
    ++compared;
    auto want = golden[key].to_vector<double>(), got = flattened(params);
    ASSERT_EQ(got.size(), want.size());
    double size = 0, error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      size = std::max(size, std::abs(want[i]));
      ASSERT_TRUE(std::isfinite(got[i])) << key << " element " << i;
      error = std::max(error, std::abs(got[i] - want[i]));
    }
    EXPECT_LE(error, tolerance * size) << key;
  }
  EXPECT_EQ(compared, 5) << name;
}

/// With PyTorch's options: in f32 and in f64, with a rate that is halved every 40 steps.
template <class O, class Options>
void expect_trajectory_in_both_precisions(const std::string& name, const Options& options,
                                          double tolerance_f64 = 1e-12) {
  const MakeOptimizer make = [=](const Tensors& p) { return std::make_unique<O>(p, options); };
  const auto schedule = [](optim::Optimizer& o) {
    return std::make_unique<optim::StepLR>(o, optim::StepLROptions{.step_size = 40, .gamma = 0.5});
  };
  expect_trajectory(name, make, 1e-5, f32, schedule);
  expect_trajectory(name + ".f64", make, tolerance_f64, f64, schedule);
}

/// Runs 100 steps, loads the state into a second optimizer with copies of the parameters, and runs
/// 100 more: both must be bit-identical.
inline void expect_resumable(const MakeOptimizer& make) {
  Tensors params = hashed_parameters();
  auto optimizer = make(params);
  auto run = [](optim::Optimizer& o, const Tensors& p, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t step = from; step <= to; ++step) {
      set_hashed_gradients(p, step);
      o.step();
    }
  };
  run(*optimizer, params, 1, 100);
  Tensors copies;
  for (const Tensor& p : params) {
    Tensor copy = p.detach().clone();
    copy.requires_grad_();
    copies.push_back(copy);
  }
  auto second = make(copies);
  run(*second, copies, 5, 7);  // has its own state, which is replaced
  for (std::size_t k = 0; k < params.size(); ++k) {
    copies[k].set_data(params[k].detach().clone());
  }
  second->load_state_dict(optimizer->state_dict());
  run(*optimizer, params, 101, 200);
  run(*second, copies, 101, 200);
  EXPECT_EQ(flattened(params), flattened(copies));
}

}  // namespace rondo::test
