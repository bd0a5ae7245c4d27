#pragma once
// Convolutions as matrix products of our own, where oneDNN's kernels are far from a product's rate.
//
// Note [Implicit GEMM]
// Of channels_last tensors a pixel is a row of channels, and through one tap (r, s) of the filter
// each pixel of y sees one pixel of x, or padding. So a convolution is a sum over the taps of
// products of (pixels x channels) and (channels x filters):
//
//     y[i]    = Σ_tap x[i·stride + tap·dilation - pad] · w[tap]ᵀ
//     dw[tap] = Σ_i   dy[i]ᵀ · x[i·stride + tap·dilation - pad]
//     dx[j]   = Σ_tap dy[(j + pad - tap·dilation) / stride] · w[tap]    where that divides evenly.
//
// The last is of the first kind for each class of pixels j that are equal modulo the stride: they
// see the same taps, and dy through them pixel by pixel. The matrix of what is seen (im2col) is
// never written as a whole: blocks of some hundred pixels are packed, tap by tap, and multiplied
// while they are in a core's caches. All sums are in an order that does not depend on the number of
// threads. Padding is multiplied as zeros, so an infinity beside it makes NaN of sums that do not
// see it.
//
// For AVX2: there oneDNN's kernels for channels_last tensors run strided 3x3 filters at 38 to 65 %
// of a matrix product and gradients of 1x1 weights at 53 to 68 %, these at 79 to 95 % and 56 to
// 94 % (ResNet-50 on a Zen 3, within a step; docs/results.md). 1x1 filters and their gradients of x
// are no faster than oneDNN's; nor, within a step, was an earlier form of this with AVX-512.

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::implicit_gemm {

/// Whether it is to be used where it can be. True where the kernels in use are those of AVX2 or
/// oneDNN has loops only (has_generated_kernels), unless RONDO_IMPLICIT_GEMM, 0 or 1, is in the
/// environment.
bool enabled();

/// Whether the problem can be solved so, and faster than by oneDNN's AVX2 kernels: f32, one group,
/// channels in multiples of 16, at least 64 on both sides, and at least 192 pixels of y; filters of
/// more than a pixel, and all gradients of weights. Asked after winograd::suits.
bool suits(const Conv2dProblem& problem);

// What the Backend's methods of these names say. requires: f32, one group, channels in multiples of
// 16; x, y, dx, dy dense channels_last; w, bias, dw dense.
void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params);
void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& params);
void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Conv2dParams& params);

}  // namespace rondo::cpu::implicit_gemm
