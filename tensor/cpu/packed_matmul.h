#pragma once
// rondo's own matrix products, for cases where oneDNN's are much slower than a core can multiply.
//
// Note [Packed matrix products]
// Every matrix product has the form y = Σ_d left[d]ᵀ · right[d]: a sum over terms d of a column of
// the left factor times a row of the right one. A core adds such terms at its full multiplication
// rate if it holds a tile of y in registers and reads both factors contiguously from the caches. So
// the factors are first copied ("packed"), some hundred terms at a time: for each vector of rows
// (or columns) of y, the elements of one term are next to those of the next term. A factor that
// already has this order is copied by rows, the other kind is transposed, and one kernel serves all
// four combinations.
//
//     for some terms: for some rows of y, whose packed left factor fits a second-level cache:
//       for each panel of columns, whose packed right factor fits the first-level cache:
//         y's tiles += leftᵀ · right       PackedKernels::accumulate
//
// The threads divide y among themselves, and each packs what its part needs. Only a few elements
// are packed by more than one thread. So threads do not wait for each other, and the order of a sum
// is independent of the number of threads.
//
// Used with AVX2, where oneDNN's kernels read small matrices without packing. Rows that are a
// multiple of 2 KiB apart then compete for the same sets of the first-level cache, and the kernels
// lose up to half of their rate (docs/journal.md).

#include "tensor/cpu/onednn.h"

namespace rondo::cpu::packed_matmul {

/// Whether to use this method where possible. By default true if the kernels in use are those of
/// AVX2, or if oneDNN has only plain loops (has_generated_kernels). RONDO_PACKED_MATMUL=0 or 1 in
/// the environment overrides the default.
bool enabled();

/// Whether oneDNN would read rows that are a multiple of 2 KiB apart without packing them. For y =
/// aᵀ · c with row-major a and c (the gradient of a layer's weights), these are the rows of c, or
/// those of a if there are at most 320 columns. For y = a · c with at most 512 rows (the gradient
/// of a layer's inputs), these are the rows of c.
bool has_conflicts(const MatmulProblem& problem);

/// Whether this method is faster: it needs conflicts, one matrix, f32, sizes in multiples of 16,
/// and at least 64 rows and columns.
bool suits(const MatmulProblem& problem);

/// Like Backend::matmul, without the activation. requires: f32, one matrix, row-major y, a and c
/// row- or column-major. Throws Error if a size is not a multiple of 16, or if the sums have no
/// terms.
void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y);

}  // namespace rondo::cpu::packed_matmul
