// The gradient of a depthwise convolution's weights for one row of pixels; compiled once for each
// instruction set (table.h). Pixel after pixel, with the sums in the first-level cache: with sums
// in registers a few channels would be read from all pixels, and memory is half as fast in that
// order.
#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

template <int taps>
inline void add_taps(const float* dy, const float* x, Index pixels, Index channels, Index x_step,
                     Index tap_step, float* sums) {
  for (Index j = 0; j < pixels; ++j, dy += channels, x += x_step)
#pragma omp simd
    for (Index c = 0; c < channels; ++c)
#pragma GCC unroll 3
      for (int t = 0; t < taps; ++t)
        sums[t * channels + c] = multiply_add(dy[c], x[t * tap_step + c], sums[t * channels + c]);
}

void weight_row(const float* dy, const float* x, Index pixels, Index channels, Index x_step,
                Index tap_step, Index taps, float* sums) {
  for (; taps >= 3; taps -= 3, x += 3 * tap_step, sums += 3 * channels)
    add_taps<3>(dy, x, pixels, channels, x_step, tap_step, sums);
  if (taps == 2) add_taps<2>(dy, x, pixels, channels, x_step, tap_step, sums);
  if (taps == 1) add_taps<1>(dy, x, pixels, channels, x_step, tap_step, sums);
}

}  // namespace

extern const DepthwiseKernel depthwise_weight_row;
const DepthwiseKernel depthwise_weight_row = weight_row;

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
