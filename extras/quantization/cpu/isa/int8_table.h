#pragma once
// The kernels of extras/quantization that are compiled for each instruction set
// (tensor/cpu/isa/table.h).

#include <cstdint>

namespace rondo::cpu {

/// Between f32 and bytes. All pointers are to dense memory.
struct Int8Kernels {
  /// The smallest and the largest of n numbers and 0; NaN where one of them is not finite.
  void (*range)(const float* x, std::int64_t n, float* least, float* most);
  /// y = min(max(round(x inverse_scale) + zero_point, 0), levels)
  void (*quantize)(const float* x, float inverse_scale, float zero_point, float levels,
                   std::uint8_t* y, std::int64_t n);
  /// Of one row: y[n] = relu?(scale weight_scale[n] (sums[n] - zero_point weight_sums[n]) +
  /// bias[n]), the sums being those of the raw bytes' products.
  void (*dequantize)(const std::int32_t* sums, float scale, std::int32_t zero_point,
                     const float* weight_scale, const std::int32_t* weight_sums, const float* bias,
                     bool relu, float* y, std::int64_t n);
};

/// Those for this machine, of the instruction set that tensor/cpu/isa/table.h has chosen.
const Int8Kernels& int8_kernels();

#define RONDO_DECLARE_INT8_KERNELS(name) \
  namespace isa::name {                  \
  extern const Int8Kernels int8;         \
  }
RONDO_DECLARE_INT8_KERNELS(generic)
RONDO_DECLARE_INT8_KERNELS(avx2)
RONDO_DECLARE_INT8_KERNELS(avx512)
RONDO_DECLARE_INT8_KERNELS(sve256)
RONDO_DECLARE_INT8_KERNELS(sve512)
#undef RONDO_DECLARE_INT8_KERNELS

}  // namespace rondo::cpu
