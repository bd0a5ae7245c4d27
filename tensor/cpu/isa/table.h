#pragma once
// The kernels that are compiled once for each instruction set, and the choice between them.
//
// Files named kernels_*.cpp in this folder are compiled several times (cmake/library.cmake), with
// RONDO_ISA_SET set to the name of an instruction set. Each file defines its functions in namespace
// isa::RONDO_ISA_SET and one table of pointers to them. The functions are plain loops over dense
// memory that the compiler vectorises, or loops over explicit vectors (vec.h, the only file with
// intrinsics). They use only local functions and inlined templates of functors.h: the linker must
// never keep an inline function compiled for AVX-512 here for a file that must run on any
// processor. For the same reason the code here does not throw directly.
//
//   generic          supported by all processors of the architecture: SSE2 on x86-64, NEON on arm64
//   avx2, avx512     x86-64
//   sve256, sve512   arm64: SVE, if its registers have exactly that many bits
//
// The choice is made once, when the CPU's backend is created. RONDO_ISA in the environment, one of
// these names, lowers it (for tests, and to reproduce another machine's bits).

#include <cstdint>
#include <type_traits>

#include "tensor/backend.h"

namespace rondo::cpu {

/// bf16's bits; arithmetic on them is in bf16.h.
using Bf16Bits = std::uint16_t;

/// Each op is computed in f32 for bf16.
struct ElementwiseKernels {
  template <class S>
  using Unary = void (*)(UnaryOp, OpParams, const S* x, S* y, std::int64_t n);
  Unary<float> unary_f32;
  Unary<double> unary_f64;
  Unary<std::int64_t> unary_i64;
  Unary<Bf16Bits> unary_bf16;
  /// y[i] = op(a[i a_step], b[i b_step]); the steps are 1 (dense) or 0 (one number).
  template <class S>
  using Binary = void (*)(BinaryOp, OpParams, const S* a, std::int64_t a_step, const S* b,
                          std::int64_t b_step, S* y, std::int64_t n);
  Binary<float> binary_f32;
  Binary<double> binary_f64;
  Binary<std::int64_t> binary_i64;
  Binary<Bf16Bits> binary_bf16;
  void (*from_bf16)(const Bf16Bits* x, float* y, std::int64_t n);
  void (*to_bf16)(const float* x, Bf16Bits* y, std::int64_t n);
  /// Copies at least 64 bytes, with vector moves (copy_bytes.h).
  void (*copy)(const char* from, char* to, std::int64_t bytes);
};

/// Reductions of dense arrays (tensor/reduction_rule.h). If op is all or any, every value except 0
/// counts as 1.
template <class C>
struct ReductionKernels {
  /// y[i] = x_0 ∘ x_1 ∘ … ∘ x_{n-1}, grouped in the same way for all instruction sets, for each of
  /// `count` runs that begin `stride` elements apart.
  void (*runs)(ReductionOp op, const C* x, std::int64_t count, std::int64_t stride, std::int64_t n,
               C* y);
  /// total[j] = total[j] ∘ x_0[j] ∘ x_1[j] ∘ …, for `count` rows of `width` elements.
  void (*rows)(ReductionOp op, const C* const* x, std::int64_t count, std::int64_t width, C* total);
};

/// How the gradient determines where a relu passed values through: from one bit per element,
/// written by `apply`; or from the sign of its output y; or from x scale[c] + offset[c], exactly as
/// `apply` computed it, which also avoids reading y. All null: no relu.
template <class T>
struct ReluMask {
  const std::uint8_t* bits = nullptr;  // rows have a length that is a multiple of 16
  const T* y = nullptr;
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* offset = nullptr;
};

/// Batch norm on rows of C channels (N·H·W rows of a channels_last tensor), or on one channel's
/// plane (C = 1). T is float or Bf16Bits; the computation is in f32. All pointers are dense.
/// past_caches: results are written directly to memory; they must then be aligned to 64 bytes, and
/// C must be a multiple of 16.
template <class T>
struct BatchNormKernels {
  /// sum[c] += x, sum_squares[c] += (x - shift[c])^2 and so on: see kernels_batch_norm.cpp.
  void (*moments)(const T* x, std::int64_t rows, std::int64_t channels, const float* shift,
                  float* sum, float* sum_squares);
  /// y = relu?((x - mean[c]) scale[c] + offset[c] + residual?), and with a relu the bits of
  /// ReluMask, if they are not null. (The form x scale + (offset - mean scale) is not used: for a
  /// channel with a large mean the terms cancel, and rounding loses the offset.)
  void (*apply)(const T* x, const T* residual, T* y, std::uint8_t* bits, std::int64_t rows,
                std::int64_t channels, const float* mean, const float* scale, const float* offset,
                bool relu, bool past_caches);
  /// With g = dy where the relu's input was positive, otherwise 0: sum_g[c] += g, sum_gx[c] += g (x
  /// - mean[c]).
  void (*backward_sums)(const T* dy, const T* x, const ReluMask<T>& mask, std::int64_t rows,
                        std::int64_t channels, const float* mean, float* sum_g, float* sum_gx);
  /// dx = g a[c] + (x - mean[c]) b[c] + d[c], and dresidual = g if dresidual is not null.
  void (*backward_apply)(const T* dy, const T* x, const ReluMask<T>& mask, T* dx, T* dresidual,
                         std::int64_t rows, std::int64_t channels, const float* mean,
                         const float* a, const float* b, const float* d, bool past_caches);
};

/// log Σ exp(x_i) = top + log_sum, with top = max x and log_sum = log Σ exp(x_i - top). log_sum is
/// NaN if an x_i is NaN or +inf.
struct LogSumExp {
  float top;
  double log_sum;
};

/// Kernels for one dense line of n elements of type S, f32 or bf16, computed in f32; sums are kept
/// in f64. y and dx may be x or dy.
template <class S>
struct SoftmaxLine {
  /// y_i = exp(x_i - top) / Σ exp(x - top). `powers` are n floats of working memory; in f32 they
  /// may be y.
  void (*softmax)(const S* x, std::int64_t n, float* powers, S* y);
  /// y_i = x_i - top - log_sum
  void (*log_softmax)(const S* x, std::int64_t n, S* y);
  /// dx_i = y_i (dy_i - Σ dy y), or dx_i = dy_i - exp(y_i) Σ dy
  void (*softmax_gradient)(const S* dy, const S* y, std::int64_t n, S* dx);
  void (*log_softmax_gradient)(const S* dy, const S* y, std::int64_t n, S* dx);
};

struct SoftmaxKernels {
  SoftmaxLine<float> f32;
  SoftmaxLine<Bf16Bits> bf16;
  LogSumExp (*log_sum_exp)(const float* x, std::int64_t n);
  /// dx_i = (exp(x_i - top - log_sum) - share) weight
  void (*cross_entropy_gradient)(const float* x, std::int64_t n, float top, float log_sum,
                                 float share, float weight, float* dx);
};

/// Kernels for one dense row of n elements of type S, f32 or bf16 (Backend::layer_norm). The mean
/// of RMS norm is null. The results are added to dgamma and dbeta, or both are null.
template <class S>
struct LayerNormKernels {
  void (*forward)(const S* x, std::int64_t n, const float* gamma, const float* beta, double eps,
                  S* y, float* mean, float* invstd);
  void (*backward)(const S* dy, const S* x, std::int64_t n, const float* gamma, const float* mean,
                   float invstd, S* dx, float* dgamma, float* dbeta);
  /// Adds the contribution of a part of a row to dgamma and dbeta.
  void (*sums)(const S* dy, const S* x, std::int64_t n, float mean, float invstd, float* dgamma,
               float* dbeta);
};

/// Kernels for one step of one sequence, n = H (Backend::lstm). gates holds W h, and afterwards the
/// activated gates; dc holds the gradient of the new c, and afterwards that of the old one.
struct LSTMKernels {
  void (*forward)(const float* of_x, std::int64_t n, float* gates, const float* c_before, float* c,
                  float* h);
  void (*backward)(const float* gates, std::int64_t n, const float* c_before, const float* c,
                   const float* dh, float* dc, float* dgates);
};

/// Elements 2 first_pair, 2 first_pair + 1, … of a normal tensor (tensor/draw.h); `pairs` is a
/// multiple of 16.
using NormalsKernel = void (*)(std::uint64_t seed, std::uint64_t stream, std::uint64_t first_pair,
                               std::int64_t pairs, double mean, double stddev, float* y);

/// y[r] = Σ_k w[r][k] x[k]; the rows of w are `stride` apart.
using MatvecKernel = void (*)(const float* w, std::int64_t stride, const float* x,
                              std::int64_t rows, std::int64_t n, float* y);

/// sums (taps, channels) += Σ_j dy[j] x[j · x_step + tap · tap_step] over the `pixels` pixels of a
/// row of dy; pixels are channels_last, and both steps count floats.
using DepthwiseKernel = void (*)(const float* dy, const float* x, std::int64_t pixels,
                                 std::int64_t channels, std::int64_t x_step, std::int64_t tap_step,
                                 std::int64_t taps, float* sums);

/// Rows of channels, with the channels of one vector together: (channels / lanes, rows, lanes). Two
/// vectors of channels are `group` floats apart. Numbers of channels are multiples of 16.
struct Packed {
  const float* data;
  std::int64_t group;
};

struct PackedKernels {
  int lanes;
  /// Limits of multiply_few: at most few_rows rows and the few_panel columns of one panel; at most
  /// few_terms terms of each sum are best.
  int few_rows, few_panel, few_terms;
  /// How many of `columns` columns one panel has: those of two vectors (of one if the number of
  /// vectors is odd).
  std::int64_t panel(std::int64_t columns) const {
    return columns % (2 * lanes) == 0 ? 2 * lanes : lanes;
  }
  /// packed = the `count` rows; a null pointer gives a row of zeros.
  void (*pack)(const float* const* rows, std::int64_t count, std::int64_t channels, float* packed,
               std::int64_t group);
  /// The `count` rows = packed + bias?, written to arbitrary addresses.
  void (*unpack)(Packed packed, std::int64_t count, std::int64_t channels, const float* bias,
                 float* const* rows);
  /// packed (rows, channels) = the transpose of `channels` rows that are `stride` apart; both sizes
  /// are multiples of 16.
  void (*pack_transposed)(const float* from, std::int64_t stride, std::int64_t rows,
                          std::int64_t channels, float* packed, std::int64_t group);
  /// y (rows, columns) = left (rows, depth) · right, where right consists of panels: (columns /
  /// panel, depth, panel). `add`: y += instead. y is packed. Rows up to the next multiple of 24 are
  /// also read and written.
  void (*multiply)(Packed left, const float* right, std::int64_t rows, std::int64_t depth,
                   std::int64_t columns, bool add, float* y, std::int64_t y_group);
  /// y (rows, few_panel) = left (rows, depth) · right (depth, few_panel), or y +=, for a right
  /// factor that comes from memory. Meanwhile it prefetches as many floats from `next` on. y is
  /// packed. Rows up to the next multiple of 16 are also read and written.
  void (*multiply_few)(Packed left, const float* right, std::int64_t rows, std::int64_t depth,
                       bool add, float* y, std::int64_t y_group, const float* next);
  /// y (rows, columns) += leftᵀ (depth, rows) · right (depth, columns); `first`: y = instead. Rows
  /// of y are y_stride apart; the number of rows is even.
  void (*accumulate)(Packed left, Packed right, std::int64_t depth, std::int64_t rows,
                     std::int64_t columns, bool first, float* y, std::int64_t y_stride);
};

/// The left factor of a product, in any layout: element (r, d) is data[r * row + d * term].
struct LeftFactor {
  const float* data;
  std::int64_t row, term;
};

/// The steps of attention for a tile of scores (tensor/cpu/attention.cpp): (keys, queries) in f32,
/// with rows that are `queries` floats apart. Numbers of keys and queries are multiples of 16.
///
/// A factor of a product consists of words of 32 bits: one f32, or two neighbours in bf16, of which
/// the products have the exact sum in f32. The neighbours are two terms of the same sum, so a
/// matrix whose rows are terms, and one whose columns are, have different words.
struct AttentionKernels {
  std::int64_t queries;  // of one block
  std::int64_t terms;    // of a word: 1 or 2
  /// along (rows, columns / 2) and down (rows / 2, columns) = the words of neighbours in a row and
  /// in a column. A null pointer is left out. columns is a multiple of 32. Null if words are f32.
  void (*pack)(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               float* along, float* down);
  /// y (rows, columns) = y factor + scale left (rows, depth) · right (depth, columns), with one
  /// factor for each column; a null factor is 0, and y is not read. depth counts words, y is f32.
  /// rows is a multiple of 8, columns one of 16.
  void (*multiply)(LeftFactor left, const float* right, std::int64_t right_stride,
                   std::int64_t rows, std::int64_t depth, std::int64_t columns, float scale,
                   const float* factor, float* y, std::int64_t y_stride);
  /// With m = max(top, max_k s): factor = exp(top - m), top = m, s = exp(s - m), and sum = sum
  /// factor
  /// + Σ_k s, for each query. A query whose scores are all -inf gets s = 0.
  void (*softmax)(float* scores, std::int64_t keys, std::int64_t queries, float* top, float* sum,
                  float* factor);
  /// With p = exp(s - lse): dp = p (keep dp - delta), s = p keep. A null keep is 1.
  void (*gradient)(float* scores, float* dp, std::int64_t keys, std::int64_t queries,
                   const float* lse, const float* delta, const float* keep);
  /// to (columns, rows) = the transpose of the words from (rows, columns); both sizes are multiples
  /// of 16.
  void (*transpose)(const float* from, std::int64_t from_stride, std::int64_t rows,
                    std::int64_t columns, float* to, std::int64_t to_stride);
};

/// One image of a channels_last tensor.
struct WinogradPlane {
  std::int64_t height, width, channels;
};

/// The number of tiles in a block, for each point and channel.
inline constexpr std::int64_t winograd_tiles = 24;

/// F(m x m, 3x3) between the pixels of one type and one tile of a block (WinogradKernels).
struct WinogradTiles {
  /// Bᵀ x B of the (m+2)x(m+2) pixels starting at (top, left); pixels outside x are 0.
  void (*input)(const void* x, const WinogradPlane&, std::int64_t top, std::int64_t left,
                float* tile);
  /// y = Aᵀ M A + bias? for those of the m x m pixels starting at (top, left) that are inside y.
  void (*output)(const float* tile, const WinogradPlane&, std::int64_t top, std::int64_t left,
                 const float* bias, void* y);
  /// A dy Aᵀ of the m x m pixels starting at (top, left); pixels outside dy are 0.
  void (*gradient)(const void* dy, const WinogradPlane&, std::int64_t top, std::int64_t left,
                   float* tile);
  /// G w Gᵀ of `count` 3x3 filters that are lane_stride apart, rotated by 180 degrees if `turned`.
  void (*weight)(const float* w, std::int64_t lane_stride, bool turned, std::int64_t count,
                 float* points, std::int64_t point_stride);
  int m = 4;

  std::int64_t points() const { return std::int64_t{m + 2} * (m + 2); }
};

/// The parts of a Winograd convolution (tensor/cpu/conv/winograd.h). Numbers of channels are
/// multiples of 16. A block of tiles is f32 (channels / lanes, points, 24 tiles and one more,
/// lanes): packed rows for each point.
struct WinogradKernels {
  int lanes;
  WinogradTiles f32, bf16, small;  // m = 4, m = 4, and f32 with m = 2, which has no gradient
  /// dw = Gᵀ M G of `count` filters, m = 4.
  void (*weight_gradient)(const float* points, std::int64_t point_stride, std::int64_t count,
                          float* dw, std::int64_t lane_stride);

  // The floats between two tiles of a block, and between its points.
  std::int64_t tile() const { return lanes; }
  std::int64_t point() const { return (winograd_tiles + 1) * lanes; }
};

struct Kernels {
  const char* name;
  ElementwiseKernels elementwise;
  ReductionKernels<float> reduce_f32;
  ReductionKernels<double> reduce_f64;
  ReductionKernels<std::int64_t> reduce_i64;
  BatchNormKernels<float> batch_norm;
  BatchNormKernels<Bf16Bits> batch_norm_bf16;
  SoftmaxKernels softmax;
  LayerNormKernels<float> layer_norm;
  LayerNormKernels<Bf16Bits> layer_norm_bf16;
  NormalsKernel normals;
  LSTMKernels lstm;
  WinogradKernels winograd;
  PackedKernels packed;
  AttentionKernels attention, attention_bf16;  // the latter is empty without products of bf16
  MatvecKernel matvec;
  DepthwiseKernel depthwise_weight_row;
};

/// The table for this machine.
const Kernels& kernels();

// Only the instruction sets of this architecture are defined (cmake/library.cmake).
#define RONDO_DECLARE_KERNELS(name)                        \
  namespace isa::name {                                    \
  extern const ElementwiseKernels elementwise;             \
  extern const ReductionKernels<float> reduce_f32;         \
  extern const ReductionKernels<double> reduce_f64;        \
  extern const ReductionKernels<std::int64_t> reduce_i64;  \
  extern const BatchNormKernels<float> batch_norm;         \
  extern const BatchNormKernels<Bf16Bits> batch_norm_bf16; \
  extern const SoftmaxKernels softmax_lines;               \
  extern const LayerNormKernels<float> layer_norm;         \
  extern const LayerNormKernels<Bf16Bits> layer_norm_bf16; \
  extern const NormalsKernel normals_f32;                  \
  extern const LSTMKernels lstm;                           \
  extern const WinogradKernels winograd;                   \
  extern const PackedKernels packed;                       \
  extern const AttentionKernels attention, attention_bf16; \
  extern const MatvecKernel matvec_f32;                    \
  extern const DepthwiseKernel depthwise_weight_row;       \
  }
RONDO_DECLARE_KERNELS(generic)
RONDO_DECLARE_KERNELS(avx2)
RONDO_DECLARE_KERNELS(avx512)
RONDO_DECLARE_KERNELS(sve256)
RONDO_DECLARE_KERNELS(sve512)
#undef RONDO_DECLARE_KERNELS

}  // namespace rondo::cpu
