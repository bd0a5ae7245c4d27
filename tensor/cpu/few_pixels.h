#pragma once
// Convolutions that make few pixels of many channels: those of a single image in a network's last
// stage.
//
// There each weight is used for a handful of pixels and comes from memory for them, and what counts
// is that it comes once, in the order in which it lies there, and no slower than a core can
// multiply. So the inputs are unfolded (im2col), one row for each pixel of y, and multiplied by the
// weights in panels of some filters; the sums of up to 16 pixels stay in registers while a panel
// passes by. With AVX2, whose registers hold the sums of 6 pixels, panels pass by in pieces that
// stay in the first-level cache for all pixels, up to 64 of them, while the next piece is asked
// for. The panels are kept while the weights do not change (Note [Prepared weights]).
//
// Pixels of padding are multiplied as zeros, so a weight that is infinite gives NaN next to them,
// as it does in implicit_gemm.h.
//
// A ResNet-18 of one CIFAR image, whose last stage has 28 of its 44 MB of weights, takes 4.7 ms on
// two cores of a Zen 4, and 5.7 ms with oneDNN's kernels there, which run at 55 % of a matrix
// product. On a Zen 3 its last stage runs at 60 to 70 %, where sums of 8 pixels at a time for whole
// panels had 37 to 49 %: they waited for memory, then multiplied.

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::few_pixels {

/// Whether the problem is such a one: f32, at most 16 pixels of y in all (64 with AVX2), one group,
/// channels in multiples of 16, and weights larger than a core's second-level cache.
bool suits(const Conv2dProblem& problem);

/// As Backend::conv2d. requires: suits(); x and y dense channels_last; w and bias dense.
void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params);

}  // namespace rondo::cpu::few_pixels
