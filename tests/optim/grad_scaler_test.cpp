#include "optim/grad_scaler.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"
#ifdef RONDO_HAS_CUDA
#include "support/simulated_gpu.h"
#include "tensor/cuda.h"
#include "tensor/cuda/stream.h"
#endif

namespace rondo::optim {
namespace {

using test::message_of;

/// Runs the golden's steps; after each the parameter and the scale must equal PyTorch's.
template <class Make>
void expect_steps_of_pytorch(Device device, const std::string& name, Make make, double clip = 0) {
  SCOPED_TRACE(name);
  const test::Golden golden("grad_scaler.txt");
  const Tensor p = golden["start"].clone().to(device).requires_grad_();
  const Tensor gradients = golden["gradients"].to(device), want = golden[name],
               scales = golden["scales"];
  auto optimizer = make(Tensors{p});
  GradScaler scaler(device, {.init_scale = 8, .growth_interval = 3});
  for (std::int64_t t = 0; t < gradients.size(0); ++t) {
    optimizer.zero_grad();
    scaler.scale((p * gradients.select(0, t)).sum()).backward();
    if (clip > 0) {
      scaler.unscale_(optimizer);
      clip_grad_norm_({p}, clip);
    }
    scaler.step(optimizer);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), scales.select(0, t).item<double>()) << t;
    // A few roundings per step, of numbers up to 4.
    EXPECT_TRUE(test::all_close(p.detach().to(Device::cpu()), want.select(0, t),
                                test::tolerance(f32, 4 * t + 4), test::tolerance(f32, 4 * t + 4)))
        << t;
  }
}

void expect_all_steps_of_pytorch(Device device) {
  expect_steps_of_pytorch(device, "sgd", [](Tensors p) {
    return SGD(std::move(p), {.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
  });
  expect_steps_of_pytorch(device, "adam",
                          [](Tensors p) { return Adam(std::move(p), {.lr = 0.1}); });
  expect_steps_of_pytorch(
      device, "clipped", [](Tensors p) { return SGD(std::move(p), {.lr = 0.1}); }, 0.5);
}

TEST(GradScaler, StepsArePyTorchs) { expect_all_steps_of_pytorch(Device::cpu()); }

#ifdef RONDO_HAS_CUDA
TEST(GradScaler, StepsOnAGpuArePyTorchsAndTheHostWaitsForNone) {
  std::optional<test::SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace();
  const Device gpu = Device::cuda();
  expect_all_steps_of_pytorch(gpu);

  const Tensor p = ones({1000}, {.device = gpu}).requires_grad_();
  Adam adam({p});
  GradScaler scaler(gpu);
  const auto step = [&] {
    adam.zero_grad();
    scaler.scale((p * p).sum()).backward();
    scaler.step(adam);
    scaler.update();
  };
  step();
  const auto before = cuda::synchronizations();
  step();
  EXPECT_EQ(cuda::synchronizations(), before);
}
#endif

TEST(GradScaler, OneBadGradientAmongManyIsFound) {
  constexpr auto inf = std::numeric_limits<float>::infinity();
  for (const std::int64_t size : {1, 1023, 1025, 40'000}) {
    for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{0}, size / 2, size - 1}) {
      Tensors parameters{ones({3}).requires_grad_(), ones({size}, {.dtype = f64}).requires_grad_()};
      parameters[0].set_grad(full({3}, 8));
      const Tensor gradient = full({size}, 8, {.dtype = f64});
      if (bad >= 0) gradient.narrow(0, bad, 1).fill_(-inf);
      parameters[1].set_grad(gradient);
      SGD sgd(parameters, {.lr = 1});
      GradScaler scaler(Device::cpu(), {.init_scale = 16});
      scaler.unscale_(sgd);
      EXPECT_EQ(parameters[0].grad().to_vector<float>()[2], 0.5F);
      scaler.step(sgd);
      scaler.update();
      EXPECT_EQ(parameters[0].to_vector<float>()[0], bad >= 0 ? 1 : 0.5) << size << ' ' << bad;
      EXPECT_EQ(scaler.get_scale(), bad >= 0 ? 8 : 16);
    }
  }
}

TEST(GradScaler, TwoOptimizersShareAScale) {
  const Tensor a = ones({1}).requires_grad_(), b = ones({1}).requires_grad_();
  SGD first({a}, {.lr = 1}), second({b}, {.lr = 1});
  GradScaler scaler(Device::cpu(), {.init_scale = 4});
  a.set_grad(full({1}, 2));
  b.set_grad(full({1}, NAN));
  scaler.step(first);
  scaler.step(second);
  scaler.update();
  EXPECT_EQ(a.item<double>(), 0.5);
  EXPECT_EQ(b.item<double>(), 1) << "only the one with the bad gradient is left out";
  EXPECT_EQ(scaler.get_scale(), 2);
}

TEST(GradScaler, TheScaleDoesNotBecomeInfinite) {
  const Tensor p = ones({1}).requires_grad_();
  SGD sgd({p});
  GradScaler scaler(Device::cpu(), {.init_scale = 0x1p127, .growth_interval = 1});
  p.set_grad(ones({1}));
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 0x1p127);
}

TEST(GradScaler, GoesOnWhereItWas) {
  const Tensor p = ones({1}).requires_grad_();
  SGD sgd({p});
  const auto step = [&](GradScaler& scaler) {
    p.set_grad(ones({1}));
    scaler.step(sgd);
    scaler.update();
    return scaler.get_scale();
  };
  GradScaler straight(Device::cpu(), {.growth_interval = 3}),
      first(Device::cpu(), {.growth_interval = 3}),
      second(Device::cpu(), {.init_scale = 1, .growth_interval = 3});
  step(straight);
  step(straight);
  step(first);
  step(first);
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(step(second), 2 * 65536);
  EXPECT_EQ(step(straight), 2 * 65536);
  EXPECT_EQ(message_of<Error>([&] {
              second.load_state_dict({{"scale", ones({})}});
            }),
            "GradScaler.load_state_dict: the state has no growth_tracker");
  EXPECT_EQ(second.get_scale(), 2 * 65536) << "nothing has changed then";
}

TEST(GradScaler, RefusesWhatMakesNoSense) {
  const Tensor p = ones({1}).requires_grad_(), half = ones({1}, {.dtype = bf16}).requires_grad_();
  SGD sgd({p}), halves({half});
  GradScaler scaler;
  EXPECT_EQ(message_of<Error>([&] { scaler.update(); }),
            "GradScaler: update() without a step() or unscale_() before it");
  p.set_grad(ones({1}));
  scaler.unscale_(sgd);
  EXPECT_EQ(message_of<Error>([&] { scaler.unscale_(sgd); }),
            "GradScaler: the gradients of this SGD have been unscaled since the last update()");
  scaler.step(sgd);
  EXPECT_EQ(message_of<Error>([&] { scaler.step(sgd); }),
            "GradScaler: step() of this SGD has been called since the last update()");
  half.set_grad(ones({1}, {.dtype = bf16}));
  EXPECT_EQ(message_of<DTypeError>([&] { scaler.step(halves); }),
            "GradScaler: a gradient is bf16; parameters stay f32 under autocast");
  EXPECT_EQ(message_of<Error>([] { GradScaler(Device::cpu(), {.growth_factor = 1}); }),
            "GradScaler: growth_factor is 1, but must be above 1");
  EXPECT_EQ(message_of<Error>([] { GradScaler(Device::cpu(), {.backoff_factor = 1}); }),
            "GradScaler: backoff_factor is 1, but must be between 0 and 1");
  EXPECT_EQ(message_of<Error>([] { GradScaler(Device::cpu(), {.init_scale = 0}); }),
            "GradScaler: init_scale is 0, but must be finite and at least 1");
  EXPECT_EQ(message_of<Error>([] { GradScaler(Device::cpu(), {.growth_interval = 0}); }),
            "GradScaler: growth_interval is 0, but must be at least 1");
}

}  // namespace
}  // namespace rondo::optim
