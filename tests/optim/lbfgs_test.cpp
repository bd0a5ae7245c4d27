// L-BFGS against PyTorch: parameters, losses and counts after each step; state; errors.

#include "optim/lbfgs.h"

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "optim/cyclic.h"
#include "optim/grad_scaler.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/hashed.h"
#include "support/support.h"

namespace rondo {
namespace {

using optim::LBFGS;
using optim::LBFGSOptions;
using optim::LineSearch;

/// Rosenbrock's function of the first parameter, and simple ones of the others.
Tensor valley(const Tensors& p) {
  const Tensor left = p[0].narrow(0, 0, 6), right = p[0].narrow(0, 1, 6);
  const Tensor rosenbrock = (25.0 * square(right - square(left)) + square(1.0 - left)).sum();
  return rosenbrock + cosh(p[1] - 0.5).sum() + square(p[2] - 1.0);
}

Tensor step_of(LBFGS& optimizer, const Tensors& params, double sign) {
  return optimizer.step([&] {
    optimizer.zero_grad();
    Tensor loss = sign * valley(params);
    loss.backward();
    return loss.detach();
  });
}

void expect_steps(const std::string& name, const LBFGSOptions& options, DType dtype,
                  double tolerance) {
  test::Golden golden("optim.txt");
  const std::string key = name + (dtype == f32 ? ".f32" : "");
  const Tensors params = test::hashed_parameters(dtype);
  LBFGS optimizer(params, options);
  const Tensor want = golden[key], losses = golden[key + ".losses"];
  for (std::int64_t step = 0; step < want.size(0); ++step) {
    const double loss = step_of(optimizer, params, options.maximize ? -1 : 1).item<double>();
    const double size = std::abs(losses.select(0, step).item<double>());
    EXPECT_NEAR(loss, losses.select(0, step).item<double>(), tolerance * size) << key << step;
    const auto got = test::flattened(params), wanted = want.select(0, step).to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted.at(i), tolerance) << key << step;
  }
  if (dtype == f32) return;  // the counts are those of all steps
  const auto counts = golden[name + ".counts"].to_vector<std::int64_t>();
  for (const auto& [entry, tensor] : optimizer.state_dict().tensors) {
    if (entry == "0.func_evals") {
      EXPECT_EQ(tensor.item<std::int64_t>(), counts[0]) << name;
    } else if (entry == "0.n_iter") {
      EXPECT_EQ(tensor.item<std::int64_t>(), counts[1]) << name;
    }
  }
}

TEST(LBFGS, FollowsPyTorch) {
  const auto expect = [](const std::string& name, const LBFGSOptions& options) {
    expect_steps(name, options, f64, 1e-8);
    expect_steps(name, options, f32, 1e-4);
  };
  expect("lbfgs", {.lr = 0.05});
  expect(
      "lbfgs.short",
      {.lr = 0.1, .max_iter = 4, .tolerance_change = 1e-12, .history_size = 3, .maximize = true});
  expect("lbfgs.wolfe", {.max_iter = 5, .line_search_fn = LineSearch::strong_wolfe});
  expect("lbfgs.wolfe.evals", {.max_iter = 6,
                               .max_eval = 5,
                               .history_size = 2,
                               .line_search_fn = LineSearch::strong_wolfe,
                               .maximize = true});
}

TEST(LBFGS, FindsTheMinimum) {
  const Tensors params = test::hashed_parameters(f64);
  LBFGS optimizer(params, {.max_iter = 200, .line_search_fn = LineSearch::strong_wolfe});
  for (int i = 0; i < 3; ++i) step_of(optimizer, params, 1);
  EXPECT_TRUE(test::all_close(params[0].detach(), ones({7}, {.dtype = f64}), 1e-5));
  EXPECT_TRUE(test::all_close(params[1].detach(), full({3, 5}, 0.5, {.dtype = f64}), 1e-5));
  EXPECT_NEAR(params[2].item<double>(), 1, 1e-5);
}

TEST(LBFGS, GoesOnFromItsState) {
  const LBFGSOptions options{
      .max_iter = 3, .history_size = 4, .line_search_fn = LineSearch::strong_wolfe};
  const Tensors params = test::hashed_parameters();
  LBFGS optimizer(params, options);
  for (int i = 0; i < 3; ++i) step_of(optimizer, params, 1);
  Tensors copies;
  for (const Tensor& p : params) copies.push_back(p.detach().clone().requires_grad_());
  LBFGS second(copies, options);
  second.load_state_dict(optimizer.state_dict());
  for (int i = 0; i < 3; ++i) {
    step_of(optimizer, params, 1);
    step_of(second, copies, 1);
  }
  EXPECT_EQ(test::flattened(params), test::flattened(copies));
  LBFGS other(copies, {.history_size = 9});
  EXPECT_ERROR(other.load_state_dict(optimizer.state_dict()), Error,
               "the state has history_size 4, the optimizer 9");
}

TEST(LBFGS, StopsAtAMinimum) {
  const Tensor p = zeros({3}).requires_grad_();
  LBFGS optimizer({p});
  int calls = 0;
  const Tensor loss = optimizer.step([&] {
    ++calls;
    optimizer.zero_grad();
    Tensor value = square(p).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(loss.item<double>(), 0);
}

TEST(LBFGS, RefusesWhatMakesNoSense) {
  Tensors p = test::hashed_parameters();
  EXPECT_ERROR(LBFGS(p, {.lr = -1}), Error, "LBFGS: lr is -1");
  EXPECT_ERROR(LBFGS(p, {.max_iter = 0}), Error, "LBFGS: max_iter is 0, but must be an integer in");
  EXPECT_ERROR(LBFGS(p, {.tolerance_grad = -1}), Error, "LBFGS: tolerance_grad is -1");
  EXPECT_ERROR(LBFGS({p[0], zeros({2}, {.dtype = f64}).requires_grad_()}), DTypeError,
               "LBFGS: one parameter is f64, another f32");
  LBFGS optimizer(p);
  EXPECT_ERROR(optimizer.step(nullptr), Error, "LBFGS.step: the closure is empty");
  test::set_hashed_gradients(p, 1);
  optim::Optimizer& base = optimizer;
  EXPECT_ERROR(base.step(), Error, "LBFGS.step: needs a closure");
  optim::GradScaler scaler(test::test_device());
  EXPECT_ERROR(scaler.step(optimizer), Error, "without a GradScaler");
  EXPECT_ERROR(optim::CyclicLR(optimizer, {.base_lr = 0, .max_lr = 1}), Error,
               "LBFGS has no momentum");
  EXPECT_FALSE(optimizer.is_elementwise());
}

}  // namespace
}  // namespace rondo
