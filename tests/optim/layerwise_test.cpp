// LARS and LAMB against the papers' formulas, Muon against PyTorch.

#include "optim/layerwise.h"

#include "autograd/ops/matmul.h"
#include "optim/trajectory.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo {
namespace {

using optim::LAMB;
using optim::LAMBOptions;
using optim::LARS;
using optim::LARSOptions;
using optim::Muon;
using optim::MuonAdjustLr;
using optim::MuonOptions;

TEST(LARS, FollowsThePaper) {
  test::expect_trajectory(
      "lars", [](const Tensors& p) { return std::make_unique<LARS>(p, LARSOptions{.lr = 0.1}); });
  test::expect_trajectory_in_both_precisions<LARS>("lars.decay",
                                                   LARSOptions{.lr = 0.3,
                                                               .momentum = 0.8,
                                                               .weight_decay = 0.1,
                                                               .trust_coefficient = 0.02,
                                                               .maximize = true});
}

TEST(LAMB, FollowsThePaper) {
  test::expect_trajectory("lamb", [](const Tensors& p) { return std::make_unique<LAMB>(p); });
  test::expect_trajectory_in_both_precisions<LAMB>(
      "lamb.decay",
      LAMBOptions{
          .lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.1, .maximize = true});
}

TEST(LayerwiseOptimizers, AParameterOfZerosMovesAtTheRateItself) {
  Tensors p{zeros({2}).requires_grad_(), zeros({2}).requires_grad_()};
  for (const Tensor& x : p) x.set_grad(ones({2}));
  LARS lars({p[0]}, {.lr = 0.5});
  LAMB lamb({p[1]}, {.lr = 0.5, .eps = 0});
  lars.step();
  lamb.step();
  EXPECT_EQ(p[0].to_vector(), (std::vector<float>{-0.5, -0.5}));
  EXPECT_TRUE(test::all_close(p[1].detach(), full({2}, -0.5), 1e-6));
}

TEST(Muon, FollowsPyTorch) {
  const auto expect_steps = [](const std::string& name, const MuonOptions& options) {
    Tensors params{test::hashed_tensor(0, 0, {6, 4}).requires_grad_(),
                   test::hashed_tensor(1, 0, {3, 5}).requires_grad_()};
    Muon optimizer(params, options);
    for (std::uint32_t step = 1; step <= 20; ++step) {
      test::set_hashed_gradients(params, step);
      optimizer.step();
    }
    const auto want = test::Golden("optim.txt")[name].to_vector<double>(),
               got = test::flattened(params);
    ASSERT_EQ(got.size(), want.size());
    // Both iterate in bf16, which rounds to 1 / 256; a step is at most 0.02 * 1.3.
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 4e-3) << name << i;
  };
  expect_steps("muon", {.lr = 0.02});
  expect_steps("muon.rms", {.lr = 0.02,
                            .weight_decay = 0.5,
                            .momentum = 0.8,
                            .nesterov = false,
                            .adjust_lr_fn = MuonAdjustLr::match_rms_adamw});
  expect_steps("muon.spectral", {.lr = 0.02,
                                 .ns_coefficients = {3.0, -3.2, 1.2},
                                 .ns_steps = 3,
                                 .adjust_lr_fn = MuonAdjustLr::spectral_unclamped});
}

TEST(Muon, RefusesWhatIsNotAMatrix) {
  Tensors p = test::hashed_parameters();
  EXPECT_ERROR(Muon(p), ShapeError, "Muon: a parameter has shape [7], but must be a matrix");
  EXPECT_ERROR(Muon({p[1]}, {.ns_steps = 100}), Error,
               "Muon: ns_steps is 100, but must be an integer in [0, 99]");
}

}  // namespace
}  // namespace rondo
