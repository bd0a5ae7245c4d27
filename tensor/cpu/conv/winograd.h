#pragma once
// 3x3 convolutions with stride 1 by Winograd's method, with a quarter of the multiplications.
//
// Note [Winograd convolution]
// A convolution is a product of polynomials, and a polynomial is determined by its values at enough
// points. So the method evaluates both factors at some points, multiplies the values, and
// interpolates. In one dimension, 4 outputs of a filter of 3 depend on 6 inputs, and 6 points
// determine them: 6 multiplications instead of 12. In two dimensions, F(4x4, 3x3), a tile of 6x6
// inputs gives 4x4 outputs with 36 multiplications instead of 144. With the matrices A, B, G of the
// chosen points (Lavin and Gray, arXiv:1509.09308):
//
//     y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ x B) ] A          for one tile, filter and channel.
//
// The sum over channels commutes with Aᵀ…A. So between the transforms there is one matrix product
// of (tiles × channels) and (channels × filters) for each of the 36 points. The transforms cost as
// much for a tile and a channel as about 15 columns of that product. The gradients follow by
// transposition:
//
//     dx: the same convolution of dy with w rotated by 180 degrees, inputs and outputs exchanged;
//     dw = Gᵀ [ Σ over tiles and images (Bᵀ x B) ⊙ (A dy Aᵀ) ] G.
//
// The points are 0, ±1/√2, ±√2, ∞. The usual points 0, ±1, ±2, ∞ have simpler matrices but are less
// accurate. With 64 channels, f32 and random data, the root mean square error relative to that of y
// was 1.7e-6 for the usual points, 8e-7 for these, and 4e-7 for the direct sum. The largest errors
// were 4e-5, 7e-6 and 4e-6 (tests/tensor/winograd_test.cpp measures against f64). bf16 tensors are
// widened when read, computed in f32 and rounded once. Where the processor multiplies bf16 at twice
// f32's rate, this takes at best half the time of direct sums.
//
// An error is relative to the largest input of a tile, not to an output. Next to a pixel of 1e8,
// outputs of about 100 are lost, and an infinity makes all 4x4 outputs of its tiles NaN. Disable
// the method if images contain such marker values.
//
// In the later planes of a single image there are too few tiles: reading 36 transformed weights for
// each pair of channels would take longer than direct sums. F(2x2, 3x3) with points 0, ±1, ∞ reads
// only 16 of them and needs 16 multiplications instead of 36.
//
// Blocks of two dozen tiles go through transform, products and inverse transform together, so that
// they stay in a core's caches. Transformed weights are kept while they do not change (Note
// [Prepared weights]). Kernels: tensor/cpu/isa/kernels_winograd.cpp, kernels_packed.cpp.

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::winograd {

/// Whether this method can solve the problem, and faster than direct sums: 3x3, stride and dilation
/// 1, each group's channels and filters in multiples of 16, and enough tiles to amortise the
/// transform of the weights.
bool suits(const Conv2dProblem& problem);

/// Whether y has too few pixels for `suits`, but enough for tiles of 2x2: 9 to 24 such tiles, so
/// that weights that do not fit a second-level cache are read only once, for 16 points. Only with
/// AVX2, f32, forward.
bool suits_small_tiles(const Conv2dProblem& problem);

// See the Backend methods of these names. requires: suits(); x, y, dx, dy dense channels_last, f32
// or bf16; w dense, of their dtype; bias f32; dw dense, f32.
void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params);
/// Uses F(2x2, 3x3). requires: f32, one group, and at most 24 tiles of 2x2.
void conv2d_small_tiles(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                        const Conv2dParams& params);
void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& params);
/// The order of the sums, and so the last bits, depends on the number of threads, as with oneDNN.
void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Conv2dParams& params);

}  // namespace rondo::cpu::winograd
