#pragma once
// Convolutions with few output pixels and many channels, as in a network's last stage for a single
// image.
//
// In such a convolution, each weight is used for only a few pixels and must be loaded from memory
// for them. So each weight should be loaded once, in memory order, and as fast as a core can
// multiply. The inputs are unfolded (im2col), one row for each pixel of y, and multiplied by the
// weights in panels of some filters. The sums of up to 16 pixels stay in registers while a panel is
// read. With AVX2, registers hold the sums of only 6 pixels. So panels are read in pieces that stay
// in the first-level cache for all pixels (up to 64), while the next piece is prefetched. The
// panels are kept while the weights do not change (Note [Prepared weights]).
//
// Padding is multiplied as zeros, so an infinite weight gives NaN next to padding, as in
// implicit_gemm.h.
//
// Timings: a ResNet-18 for one CIFAR image, whose last stage has 28 of its 44 MB of weights, takes
// 4.7 ms on two cores of a Zen 4. With oneDNN's kernels, which run at 55 % of a matrix product's
// rate there, it takes 5.7 ms. On a Zen 3 its last stage runs at 60 to 70 %. Summing 8 pixels at a
// time over whole panels ran at 37 to 49 %, because it first waited for memory and then multiplied.

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::few_pixels {

/// Whether the problem qualifies: f32, at most 16 pixels of y in total (64 with AVX2), one group,
/// channels in multiples of 16, and weights larger than a core's second-level cache.
bool suits(const Conv2dProblem& problem);

/// See Backend::conv2d. requires: suits(); x and y dense channels_last; w and bias dense.
void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params);

}  // namespace rondo::cpu::few_pixels
