#pragma once
// The kernels of extras/quantization, compiled for each instruction set (tensor/cpu/isa/table.h).

#include <cstdint>

namespace rondo::cpu {

/// Kernels between f32 and bytes. All pointers are to contiguous memory.
struct Int8Kernels {
  /// The minimum and maximum of n numbers and 0; NaN if one of them is not finite.
  void (*range)(const float* x, std::int64_t n, float* least, float* most);
  /// y = min(max(round(x inverse_scale) + zero_point, 0), levels)
  void (*quantize)(const float* x, float inverse_scale, float zero_point, float levels,
                   std::uint8_t* y, std::int64_t n);
  /// For one row: y[n] = relu?(scale weight_scale[n] (sums[n] - zero_point weight_sums[n]) +
  /// bias[n]), where sums[n] is the sum of products of the raw bytes.
  void (*dequantize)(const std::int32_t* sums, float scale, std::int32_t zero_point,
                     const float* weight_scale, const std::int32_t* weight_sums, const float* bias,
                     bool relu, float* y, std::int64_t n);
};

/// The kernels for this machine, for the instruction set that tensor/cpu/isa/table.h has chosen.
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
