#include "extras/quantization/fake_quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/checkpoint.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "extras/quantization/quantize.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

constexpr float smallest_scale = std::numeric_limits<float>::epsilon();  // as in PyTorch

}  // namespace

Quantization affine_quantization(double least, double most, int levels) {
  require(!(least > most), "quantisation: no input has been observed: calibrate before convert");
  least = std::min(least, 0.0);
  most = std::max(most, 0.0);
  // Computed in f32 as in PyTorch: -1 to 1 has the zero point 127, but f64 would round to 128.
  const auto low = static_cast<float>(least), high = static_cast<float>(most);
  const float scale = std::max((high - low) / static_cast<float>(levels), smallest_scale);
  require(std::isfinite(scale), "quantisation: numbers from ", least, " to ", most,
          " have been observed");
  const auto zero_point = static_cast<std::int64_t>(-std::nearbyint(low / scale));
  return {.scale = scale, .zero_point = std::clamp<std::int64_t>(zero_point, 0, levels)};
}

Tensor symmetric_scales(const Tensor& w) {
  NoGradGuard no_grad;
  const std::int64_t rows = w.size(0);
  if (w.numel() == 0) return full({rows}, smallest_scale);
  const Tensor most = max(reshape(abs(w.detach().to(f32)), {rows, w.numel() / rows}), 1).values;
  for (float value : most.to_vector())
    require(std::isfinite(value), "quantisation: a weight is ", value);
  return clamp(most / 127, smallest_scale, std::numeric_limits<float>::max());
}

FakeQuantize::FakeQuantize(const ObserverOptions& options)
    : options(options),
      min_val(full({}, std::numeric_limits<float>::infinity())),
      max_val(full({}, -std::numeric_limits<float>::infinity())) {
  require(options.averaging_constant > 0 && options.averaging_constant <= 1,
          "FakeQuantize: averaging_constant must be above 0 and at most 1, but is ",
          options.averaging_constant);
}

Tensor FakeQuantize::forward(const Tensor& x) {
  if (observer_enabled && (is_training() || !fake_quant_enabled) && !is_recomputing()) observe(x);
  if (!fake_quant_enabled) return x;
  // Inside a checkpoint, the second run must use this range, not one that another input has
  // changed.
  for (const Tensor& limit : {min_val, max_val}) (void)CheckpointEntry::save(limit);
  const Quantization q = quantization();
  return fake_quantize_per_tensor_affine(x, q.scale, q.zero_point, 0, 255);
}

void FakeQuantize::observe(const Tensor& x) {
  if (x.numel() == 0) return;
  NoGradGuard no_grad;
  const Tensor seen = x.detach();
  auto least = min(seen).item<double>(), most = max(seen).item<double>();
  const auto before_least = min_val.item<double>(), before_most = max_val.item<double>();
  const bool is_first = std::isinf(before_least) && before_least > 0 && before_most < 0;
  if (!is_first && options.range == ObserverOptions::Range::moving_average) {
    least = before_least + options.averaging_constant * (least - before_least);
    most = before_most + options.averaging_constant * (most - before_most);
  } else if (!is_first) {  // NaN stays, so that `quantization` reports it
    least = before_least < least || std::isnan(before_least) ? before_least : least;
    most = before_most > most || std::isnan(before_most) ? before_most : most;
  }
  min_val.fill_(least);
  max_val.fill_(most);
}

Quantization FakeQuantize::quantization() const {
  return affine_quantization(min_val.item<double>(), max_val.item<double>());
}

}  // namespace rondo::nn
