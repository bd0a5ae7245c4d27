#pragma once
// Between the nine element types and the three compute types (float, double, int64_t).
//
// Kernels compute in one of three types, on rows held in cache; what differs between f16 and u8 is
// only how a row is loaded and stored. That keeps the number of compiled loops at ops × 3 + dtypes
// × 6.

#include <cstdint>

#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace rondo::cpu {

/// to[i] = C(from[i]) for n elements `step` bytes apart.
template <class C>
void load_row(DType dtype, const char* from, std::int64_t step, std::int64_t n, C* to);
/// to[i] = T(from[i]); floats go to integers by truncation, to bool by != 0.
template <class C>
void store_row(DType dtype, const C* from, std::int64_t n, char* to, std::int64_t step);

/// Elements of a row that are processed at a time: three such rows of doubles fit the first cache.
inline constexpr std::int64_t row_block = 1024;

}  // namespace rondo::cpu
