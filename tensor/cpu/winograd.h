#pragma once
// Convolutions of 3x3 filters with stride 1 by Winograd's method: a quarter of the multiplications.
//
// Note [Winograd convolution]
// A convolution is a product of polynomials, and a product is known from its values: evaluate both
// factors at some points, multiply value by value, interpolate. In one dimension 4 outputs of a
// filter of 3 depend on 6 inputs, and 6 points determine them: 6 multiplications instead of 12. In
// two dimensions, F(4x4, 3x3), a tile of 6x6 inputs gives 4x4 outputs by 36 multiplications instead
// of 144. With the matrices A, B, G of the chosen points (Lavin and Gray, arXiv:1509.09308):
//
//     y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ x B) ] A          for one tile, filter and channel.
//
// The sum over channels commutes with Aᵀ…A, so what lies between the transforms is, for each of the
// 36 points, a matrix product of (tiles × channels) and (channels × filters); the transforms cost
// as much for a tile and a channel as some 15 columns of it. The gradients follow by transposition:
//
//     dx: the same convolution of dy with w turned by 180 degrees, inputs and outputs exchanged;
//     dw = Gᵀ [ Σ over tiles and images (Bᵀ x B) ⊙ (A dy Aᵀ) ] G.
//
// The points are 0, ±1/√2, ±√2, ∞. The customary 0, ±1, ±2, ∞ have rounder matrices but lose more:
// with 64 channels, f32 and random data the root mean square error relative to that of y
// was 1.7e-6, here 8e-7, of the direct sum 4e-7; the largest error 4e-5, 7e-6 and 4e-6
// (tests/tensor/winograd_test.cpp measures against f64). bf16 tensors are widened on the way in,
// computed in f32 and rounded once: where the processor multiplies bf16, at twice f32's rate, that
// is half the time of direct sums at best.
//
// An error is relative to the largest input of a tile, not to an output: beside a pixel of 1e8,
// outputs of about 100 are lost, and an infinity makes NaN of the 4x4 outputs of its tiles. Who
// marks pixels by such numbers switches it off.
//
// A single image's later planes have too few tiles: reading 36 transformed weights for each pair of
// channels would take longer than direct sums. There F(2x2, 3x3), with points 0, ±1, ∞, needs 16
// of them, and 16 multiplications instead of 36.
//
// Blocks of two dozen tiles are carried through transform, products and transform back, so that
// they stay in a core's caches; transformed weights are kept while they do not change
// (Note [Prepared weights]). Kernels: tensor/cpu/isa/kernels_winograd.cpp, kernels_packed.cpp.

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::winograd {

/// Whether it is to be used where it is the faster way. True, unless RONDO_WINOGRAD=0 is in the
/// environment; set_enabled(false) gives the direct sums, at a half to a third of the speed.
bool enabled();
void set_enabled(bool enabled);

/// Whether the problem can be solved so, and faster than directly: 3x3, stride and dilation 1, one
/// group, channels in multiples of 16, enough tiles to make up for transforming the weights.
bool suits(const Conv2dProblem& problem);

/// Whether y's pixels are too few for that, but enough for tiles of 2x2: 9 to 24 of them, so that
/// weights, of which there are more than a second-level cache holds, are read for 16 points once.
/// With AVX2, f32, forward.
bool suits_small_tiles(const Conv2dProblem& problem);

// What the Backend's methods of these names say. requires: suits(); x, y, dx, dy dense
// channels_last, f32 or bf16; w dense, of their dtype; bias f32; dw dense, f32.
void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params);
/// By F(2x2, 3x3). requires: f32, and at most 24 tiles of 2x2.
void conv2d_small_tiles(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                        const Conv2dParams& params);
void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& params);
/// The order of its sums, hence the last bits, depend on the number of threads, as oneDNN's do.
void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Conv2dParams& params);

}  // namespace rondo::cpu::winograd
