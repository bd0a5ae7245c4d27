// Clipping against PyTorch, or against closed forms without a golden.

#include "optim/clip.h"

#include <cmath>

#include "support/golden.h"
#include "support/hashed.h"
#include "support/support.h"

namespace rondo {
namespace {

Tensors with_gradients() {
  Tensors params = test::hashed_parameters();
  test::set_hashed_gradients(params, 1);
  return params;
}

void expect_clipped(const std::string& name, const Tensors& params) {
  test::Golden golden("optim.txt");
  auto want = golden["clipped." + name].to_vector<double>();
  std::vector<double> got;
  for (const Tensor& p : params) {
    for (double g : p.grad().to_vector<double>()) got.push_back(g);
  }
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-6 * std::abs(want[i])) << name << " element " << i;
  }
}

void expect_norm(const std::string& name, double max_norm, double type) {
  Tensors params = with_gradients();
  Tensor norm = optim::clip_grad_norm_(params, max_norm, {.norm_type = type});
  EXPECT_TRUE(test::all_close(norm, test::Golden("optim.txt")["clip." + name], 0, 1e-6)) << name;
  expect_clipped(name, params);
}

TEST(ClipGradNorm, FollowsPyTorch) {
  expect_norm("norm2", 0.5, 2);
  expect_norm("norm2.loose", 100, 2);
  expect_norm("norm1", 1.5, 1);
  expect_norm("norminf", 0.25, optim::inf_norm);
  expect_norm("norm3", 0.5, 3);
  expect_norm("norm0.5", 2, 0.5);
}

TEST(ClipGradValue, FollowsPyTorch) {
  Tensors params = with_gradients();
  optim::clip_grad_value_(params, 0.125);
  expect_clipped("value", params);
}

TEST(ClipGradNorm, PassesOverMissingGradientsAndEmptyTensors) {
  Tensors params{ones({3}).requires_grad_(), ones({0, 4}).requires_grad_(),
                 ones({2}).requires_grad_()};
  EXPECT_EQ(optim::clip_grad_norm_(params, 1).item<double>(), 0);
  params[0].set_grad(full({3}, 2.0));
  params[1].set_grad(zeros({0, 4}));
  for (double type : {1.0, 2.0, 3.0, optim::inf_norm}) {
    params[0].set_grad(full({3}, 2.0));
    double want = type == optim::inf_norm ? 2 : 2 * std::pow(3, 1 / type);
    EXPECT_NEAR(optim::clip_grad_norm_(params, 1, {.norm_type = type}).item<double>(), want, 1e-6);
    EXPECT_FALSE(params[2].grad().defined());
  }
}

TEST(ClipGradNorm, SumsInDoubleWhereAnyGradientIs) {
  Tensors params{ones({3}).requires_grad_(), ones({2}, {.dtype = f64}).requires_grad_()};
  params[0].set_grad(full({3}, 3.0));
  params[1].set_grad(full({2}, 4.0, {.dtype = f64}));
  Tensor norm = optim::clip_grad_norm_(params, 1);
  EXPECT_EQ(norm.dtype(), f64);
  EXPECT_NEAR(norm.item<double>(), std::sqrt(59.0), 1e-14);
}

TEST(ClipGradNorm, ScalesChannelsLastGradients) {
  Tensor gradient = test::hashed_tensor(1, 1, {2, 3, 4, 5});
  Tensors a{zeros({2, 3, 4, 5}).requires_grad_()}, b{zeros({2, 3, 4, 5}).requires_grad_()};
  a[0].set_grad(gradient.clone());
  b[0].set_grad(gradient.contiguous(MemoryFormat::channels_last).clone());
  optim::clip_grad_norm_(a, 0.5);
  optim::clip_grad_norm_(b, 0.5);
  EXPECT_TRUE(test::all_close(a[0].grad(), b[0].grad(), 0, 1e-6));
}

TEST(TotalNorm, IsThatOfAllTensorsAndMayBeUsedLater) {
  const Tensors params = with_gradients();
  Tensors grads;
  for (const Tensor& p : params) grads.push_back(p.grad());
  const Tensor norm = optim::get_total_norm(grads, {.norm_type = 3});
  EXPECT_TRUE(test::all_close(norm, test::Golden("optim.txt")["clip.norm3"], 0, 1e-6));
  optim::clip_grads_with_norm_(params, 0.5, norm);
  expect_clipped("norm3", params);
  EXPECT_EQ(optim::get_total_norm({}).item<double>(), 0);
  EXPECT_THROW(optim::clip_grads_with_norm_(params, -1, norm), Error);
}

TEST(ClipGradNorm, ReportsWhatIsNotFinite) {
  Tensors params{ones({3}).requires_grad_()};
  params[0].set_grad(full({3}, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm_(params, 1).item<double>()));
  EXPECT_THROW(optim::clip_grad_norm_(params, 1, {.error_if_nonfinite = true}), Error);
}

TEST(Clip, RefusesLimitsThatMakeNoSense) {
  Tensors params = with_gradients();
  EXPECT_THROW(optim::clip_grad_norm_(params, -1), Error);
  EXPECT_THROW(optim::clip_grad_norm_(params, 1, {.norm_type = 0}), Error);
  EXPECT_THROW(optim::clip_grad_norm_(params, 1, {.norm_type = -optim::inf_norm}), Error);
  EXPECT_THROW(optim::clip_grad_value_(params, -1), Error);
}

}  // namespace
}  // namespace rondo
