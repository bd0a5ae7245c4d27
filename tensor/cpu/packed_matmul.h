#pragma once
// Matrix products of our own, where oneDNN's are far from the rate of a core.
//
// Note [Packed matrix products]
// Whatever is multiplied, y = Σ_d left[d]ᵀ · right[d], a sum over terms d of a column of the left
// factor times a row of the right one. A core adds such terms as fast as it can multiply, if it
// holds a tile of y in its registers and reads both factors from the caches in one run each. So
// they are copied ("packed") first, some hundred terms at a time: for each vector's width of rows
// (or columns) of y, what belongs to one term lies beside what belongs to the next. A factor that
// lies so already is copied by rows, the other kind is transposed, and one kernel does all four
// forms.
//
//     for some terms: for some rows of y, whose left numbers a second-level cache holds packed:
//       for each panel of columns, whose right numbers the first-level cache holds:
//         y's tiles += leftᵀ · right       PackedKernels::accumulate
//
// The threads divide y among themselves and pack what their parts need, a few numbers more than
// once between them; so they need not wait for each other, and the order of a sum does not depend
// on how many they are.
//
// For AVX2, where oneDNN's kernels read small matrices as they lie. Rows that are a multiple of 2
// KiB apart compete for the same places of the first-level cache then, and the kernels lose up to
// half of their rate (docs/results.md).

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::packed_matmul {

/// Whether it is to be used where it can be. True where the kernels in use are those of AVX2 or
/// oneDNN has loops only (has_generated_kernels), unless RONDO_PACKED_MATMUL, 0 or 1, is in the
/// environment.
bool enabled();

/// Whether it is worth it: for one matrix, f32, sizes in multiples of 16 with at least 64 rows and
/// columns, where rows are a multiple of 2 KiB apart: those of c in y = aᵀ · c of row-major a and c
/// (the gradient of a layer's weights), or those of a if there are at most 320 columns; and those
/// of c in y = a · c of at most 512 rows (the gradient of its inputs).
bool suits(const MatmulProblem& problem);

/// What Backend::matmul says, without the activation. requires: f32, one matrix, row-major y, a and
/// c row- or column-major. Throws Error if a size is no multiple of 16, or the sums have no terms.
void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y);

}  // namespace rondo::cpu::packed_matmul
