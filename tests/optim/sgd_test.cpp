// SGD against PyTorch's trajectories, its state, and its errors.

#include "optim/sgd.h"

#include "optim/one_cycle.h"
#include "optim/trajectory.h"

namespace rondo {
namespace {

using optim::SGD;
using optim::SgdOptions;

test::MakeOptimizer sgd(SgdOptions options) {
  return [=](const Tensors& params) { return std::make_unique<SGD>(params, options); };
}

TEST(Sgd, FollowsPyTorch) {
  test::expect_trajectory("sgd", sgd({.lr = 0.1}));
  test::expect_trajectory("sgd.decay", sgd({.lr = 0.1, .weight_decay = 0.05}));
  test::expect_trajectory("sgd.momentum", sgd({.lr = 0.1, .momentum = 0.9}));
  test::expect_trajectory("sgd.dampening", sgd({.lr = 0.1, .momentum = 0.9, .dampening = 0.3}));
  test::expect_trajectory("sgd.nesterov", sgd({.lr = 0.1, .momentum = 0.9, .nesterov = true}));
  test::expect_trajectory(
      "sgd.maximize", sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .maximize = true}));
  test::expect_trajectory(
      "sgd.dampening.decay",
      sgd({.lr = 0.1, .momentum = 0.8, .dampening = 0.5, .weight_decay = 0.01}));
}

TEST(Sgd, FollowsPyTorchInBothPrecisions) {
  auto make = sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  test::expect_trajectory("sgd.nesterov.decay", make);
  test::expect_trajectory("sgd.nesterov.decay.f64", make, 1e-13, f64);
}

TEST(Sgd, GroupsHaveTheirOwnOptions) {
  test::expect_trajectory("sgd.groups", [](const Tensors& p) {
    return std::make_unique<SGD>(std::vector<optim::ParamGroup<SgdOptions>>{
        {{p[0]}, {.lr = 0.2, .momentum = 0.9}}, {{p[1], p[2]}, {.lr = 0.1, .momentum = 0.5}}});
  });
}

TEST(Sgd, FollowsPyTorchUnderOneCycle) {
  test::expect_trajectory("sgd.onecycle",
                          sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true}),
                          1e-5, f32, [](optim::Optimizer& o) {
                            return std::make_unique<optim::OneCycleLR>(
                                o, optim::OneCycleLROptions{.max_lr = 0.3, .total_steps = 200});
                          });
}

TEST(Sgd, GoesOnFromItsState) {
  test::expect_resumable(sgd({.lr = 0.1}));
  test::expect_resumable(sgd({.lr = 0.1, .momentum = 0.9, .nesterov = true}));
}

TEST(Sgd, KeepsABufferOnlyForParametersThatHadGradients) {
  Tensors params = test::hashed_parameters();
  SGD optimizer(params, {.lr = 0.1, .momentum = 0.9});
  params[0].set_grad(ones_like(params[0].detach()));
  optimizer.step();
  auto state = optimizer.state_dict();
  ASSERT_EQ(state.tensors.size(), 1u);
  EXPECT_EQ(state.tensors[0].name, "0.momentum_buffer");
  EXPECT_EQ(state.groups[0].params, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(state.groups[0].options.at("momentum"), 0.9);
}

TEST(Sgd, RefusesOptionsThatMakeNoSense) {
  Tensors p = test::hashed_parameters();
  auto message = [&](SgdOptions o) -> std::string {
    try {
      SGD optimizer(p, o);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({.lr = -1}), "SGD: lr is -1, but must be finite and not negative");
  EXPECT_EQ(message({.momentum = -0.5}),
            "SGD: momentum is -0.5, but must be finite and not negative");
  EXPECT_EQ(message({.weight_decay = -2}),
            "SGD: weight_decay is -2, but must be finite and not negative");
  EXPECT_NE(message({.lr = NAN}), "accepted");
  EXPECT_NE(message({.nesterov = true}), "accepted");
  EXPECT_NE(message({.momentum = 0.9, .dampening = 0.1, .nesterov = true}), "accepted");
  EXPECT_EQ(message({.lr = 0}), "accepted");
}

}  // namespace
}  // namespace rondo
