#pragma once
// Convolutions as rondo's own matrix products, for cases where oneDNN's kernels are much slower
// than a matrix product.
//
// Note [Implicit GEMM]
// In a channels_last tensor a pixel is a row of channels. Through one tap (r, s) of the filter,
// each pixel of y reads one pixel of x, or padding. So a convolution is a sum over the taps of
// products of (pixels x channels) and (channels x filters):
//
//     y[i]    = Σ_tap x[i·stride + tap·dilation - pad] · w[tap]ᵀ
//     dw[tap] = Σ_i   dy[i]ᵀ · x[i·stride + tap·dilation - pad]
//     dx[j]   = Σ_tap dy[(j + pad - tap·dilation) / stride] · w[tap]    where that divides evenly.
//
// The last form equals the first one for each class of pixels j that are equal modulo the stride,
// because they read dy through the same taps. The full matrix of the read pixels (im2col) is never
// stored. Instead, blocks of about a hundred pixels are packed, tap by tap, and multiplied while
// they are in a core's caches. The order of all sums is independent of the number of threads.
// Padding is multiplied as zeros, so an infinity next to padding makes NaN even in sums that do not
// contain it.
//
// Used with AVX2. There, relative to a matrix product's rate, oneDNN's kernels for channels_last
// tensors run strided 3x3 filters at 38 to 65 % and gradients of 1x1 weights at 53 to 68 %; these
// kernels run at 79 to 95 % and 56 to 94 % (ResNet-50 on a Zen 3, within a step; docs/journal.md).
// For 1x1 filters and their gradients of x, these kernels are not faster than oneDNN's. An earlier
// version with AVX-512 was not faster within a step either.

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::implicit_gemm {

/// Whether this method can solve the problem, and faster than oneDNN's AVX2 kernels: f32, one
/// group, channels in multiples of 16, at least 64 on both sides, and at least 192 pixels of y.
/// Covers filters of more than one pixel, and all gradients of weights.
bool suits(const Conv2dProblem& problem);

// See the Backend methods of these names. requires: f32, one group, channels in multiples of 16; x,
// y, dx, dy dense channels_last; w, bias, dw dense.
void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params);
void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& params);
void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Conv2dParams& params);

}  // namespace rondo::cpu::implicit_gemm
