// Optimizer steps: ten-step trajectories against torch.optim, 16-bit parameters, sizes around the
// blocks.

#include <functional>

#include "support/golden.h"
#include "support/layouts.h"
#include "support/support.h"

namespace rondo::test {
namespace {

constexpr std::int64_t steps = 10, n = 7;

/// Ten steps from the golden start with the golden gradients and learning rates; update(p, g, lr,
/// t).
Tensor trajectory(
    DType dtype,
    const std::function<void(const Tensor&, const Tensor&, const Tensor&, int)>& update) {
  const Tensor p = converted(kernel_golden()["optim.start"], dtype);
  const Tensor gradients = converted(kernel_golden()["optim.gradients"], dtype);
  const Tensor rates = kernel_golden()["optim.rates"];
  for (int t = 0; t < steps; ++t) {
    update(p, gradients.as_view({n}, {1}, t * n), rates.as_view({}, {}, t), t);
  }
  return p;
}

/// The tensors that a backend's steps read.
Tensor rates(double lr, double momentum) { return tensor({lr, momentum}); }

Tensor sgd(DType dtype, double momentum, SgdParams params, DType state_dtype) {
  const Tensor buffer =
      momentum != 0 ? full({n}, 1e30, {.dtype = state_dtype}) : Tensor();  // never read
  return trajectory(dtype, [&](const Tensor& p, const Tensor& g, const Tensor& lr, int t) {
    params.first_step = t == 0;
    backend(p).sgd_step(p, g, buffer, rates(lr.item<double>(), momentum), params);
  });
}

Tensor adam(DType dtype, double beta1, const AdamParams& params, DType state_dtype, bool amsgrad) {
  const Tensor m = zeros({n}, {.dtype = state_dtype}), v = zeros_like(m);
  const Tensor max_v = amsgrad ? zeros_like(m) : Tensor();
  return trajectory(dtype, [&](const Tensor& p, const Tensor& g, const Tensor& lr, int t) {
    backend(p).adam_step(p, g, m, v, max_v, rates(lr.item<double>(), beta1),
                         scalar(t + 1, {.dtype = f64}), params);
  });
}

void expect_near_golden(const Tensor& p, const std::string& tag) {
  const Tensor want = kernel_golden()[concat("optim.", tag, ".", p.dtype())];
  EXPECT_TRUE(all_close(p, want, tolerance(p.dtype(), steps), tolerance(p.dtype(), steps)))
      << tag << ' ' << p.dtype();
}

TEST(Sgd, TrajectoriesAgreeWithPyTorch) {
  struct Case {
    const char* tag;
    double momentum;
    SgdParams params;
  };
  const Case cases[] = {
      {"sgd.plain", 0, {}},
      {"sgd.decay", 0, {.weight_decay = 0.05}},
      {"sgd.momentum", 0.9, {.weight_decay = 0.05}},
      {"sgd.dampening", 0.9, {.dampening = 0.3}},
      {"sgd.nesterov", 0.9, {.weight_decay = 0.05, .nesterov = true}},
      {"sgd.maximize", 0.9, {.weight_decay = 0.05, .maximize = true}},
  };
  for (const Case& c : cases) {
    for (DType dtype : {f32, f64})
      expect_near_golden(sgd(dtype, c.momentum, c.params, dtype), c.tag);
  }
}

struct AdamCase {
  const char* tag;
  double beta1;
  AdamParams params;
  bool amsgrad = false;
};
const AdamCase adam_cases[] = {
    {"adam.plain", 0.9, {}},
    {"adam.decay", 0.8, {.beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.05}},
    {"adam.amsgrad", 0.9, {}, true},
    {"adam.maximize", 0.9, {.maximize = true}},
    {"adamw", 0.9, {.weight_decay = 0.05, .decoupled = true}},
};

TEST(Adam, TrajectoriesAgreeWithPyTorch) {
  for (const AdamCase& c : adam_cases) {
    for (DType dtype : {f32, f64}) {
      expect_near_golden(adam(dtype, c.beta1, c.params, dtype, c.amsgrad), c.tag);
    }
  }
}

TEST(Optimizers, SixteenBitParametersAreUpdatedInF32) {
  // With f32 state, each step rounds the parameter once: by at most half an ulp of numbers up to 4.
  for (DType dtype : {bf16, f16}) {
    const double ulp = tolerance(dtype) / 4 * 4;
    const Tensor s = sgd(dtype, 0.9, {.weight_decay = 0.05}, f32);
    EXPECT_TRUE(
        all_close(converted(s, f32), kernel_golden()["optim.sgd.momentum.f32"], steps * ulp));
    const Tensor a = adam(dtype, 0.9, {}, f32, false);
    EXPECT_TRUE(all_close(converted(a, f32), kernel_golden()["optim.adam.plain.f32"], steps * ulp));
    const Tensor narrow = adam(dtype, 0.9, {}, dtype, true);
    EXPECT_TRUE(
        all_close(converted(narrow, f32), kernel_golden()["optim.adam.amsgrad.f32"], steps * ulp));
  }
}

TEST(Optimizers, OneStepAtEverySize) {
  const Tensor half = rates(0.5, 0.5);
  for (std::int64_t size : {0, 1, 3, 1023, 1024, 1025, 50021}) {
    for (DType dtype : {f32, f64, bf16}) {
      const Tensor p = full({size}, 2, {.dtype = dtype}), g = full({size}, 4, {.dtype = dtype});
      const Tensor buffer = full({size}, 8, {.dtype = dtype});
      backend(p).sgd_step(p, g, buffer, half, {});
      EXPECT_TRUE(identical(buffer, full({size}, 8, {.dtype = dtype})));  // 0.5 8 + 4
      EXPECT_TRUE(identical(p, full({size}, -2, {.dtype = dtype})));      // 2 - 0.5 8
      EXPECT_TRUE(identical(g, full({size}, 4, {.dtype = dtype})));
    }
  }
}

TEST(Optimizers, ChannelsLastParametersInPlace) {
  const Tensor g = relaid(Layout::channels_last, kernel_golden()["pool.x"]);
  const Tensor p = relaid(Layout::channels_last, zeros(g.shape()));
  backend(p).sgd_step(p, g, {}, rates(1, 0), {.maximize = true});
  EXPECT_TRUE(identical(p, kernel_golden()["pool.x"]));
}

TEST(Optimizers, IntegersAreRefused) {
  const Tensor p = zeros({2}, {.dtype = i64}), one = rates(1, 0);
  EXPECT_THROW(backend(p).sgd_step(p, p, {}, one, {}), DTypeError);
  EXPECT_THROW(backend(p).adam_step(p, p, p, p, {}, one, one, {}), DTypeError);
}

}  // namespace
}  // namespace rondo::test
