// Kernels between f32 and bytes, compiled once for each instruction set (tensor/cpu/isa/table.h).
#include "extras/quantization/cpu/isa/int8_table.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

void range(const float* x, std::int64_t n, float* least, float* most) {
  float low = 0, high = 0, poison = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(+ : poison)
  for (std::int64_t i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    poison += x[i] * 0.f;  // NaN if x[i] is NaN or infinite, else 0
  }
  *least = low + poison;
  *most = high + poison;
}

/// Rounds by adding 1.5 · 2^23, whose last bit is worth 1. Every instruction set can vectorise
/// this, and it is sufficient because the number is small.
void quantize(const float* x, float inverse_scale, float zero_point, float levels, std::uint8_t* y,
              std::int64_t n) {
  constexpr float magic = 12582912.f;
  const float low = -zero_point, high = levels - zero_point;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    float q = x[i] * inverse_scale;
    q = q > low ? q : low;  // low for NaN
    q = q < high ? q : high;
    q = (q + magic) - magic;
    y[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(q + zero_point));
  }
}

template <bool relu>
void dequantize_row(const std::int32_t* sums, float scale, std::int32_t zero_point,
                    const float* weight_scale, const std::int32_t* weight_sums, const float* bias,
                    float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t sum = sums[i] - zero_point * weight_sums[i];
    const float v = static_cast<float>(sum) * (scale * weight_scale[i]) + bias[i];
    y[i] = relu && v < 0 ? 0.f : v;
  }
}

void dequantize(const std::int32_t* sums, float scale, std::int32_t zero_point,
                const float* weight_scale, const std::int32_t* weight_sums, const float* bias,
                bool relu, float* y, std::int64_t n) {
  const auto row = relu ? dequantize_row<true> : dequantize_row<false>;
  row(sums, scale, zero_point, weight_scale, weight_sums, bias, y, n);
}

}  // namespace

extern const Int8Kernels int8;
const Int8Kernels int8{range, quantize, dequantize};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
