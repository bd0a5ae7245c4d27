#pragma once
// Conversion between the nine element types and the three compute types (float, double, int64_t).
//
// Kernels compute in one of three types, on rows held in cache. Element types differ only in how a
// row is loaded and stored. So the number of compiled loops is ops × 3 + dtypes × 6.

#include <cstdint>

#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace rondo::cpu {

/// to[i] = C(from[i]) for n elements `step` bytes apart.
template <class C>
void load_row(DType dtype, const char* from, std::int64_t step, std::int64_t n, C* to);
/// to[i] = T(from[i]). Conversion to integers truncates; conversion to bool is from[i] != 0.
template <class C>
void store_row(DType dtype, const C* from, std::int64_t n, char* to, std::int64_t step);

/// Elements of a row that are processed at a time: three such rows of doubles fit into the
/// first-level cache.
inline constexpr std::int64_t row_block = 1024;

}  // namespace rondo::cpu
