#pragma once
// What start.cpp and solution.cpp define.

#include <cstdint>

/// out[i] = x[i] + x[i + 1] for i = 0 … n - 2, and out[n - 1] = x[n - 1]. `launch` calls this for
/// i = 0 … in blocks of 256, in any order, and for some i that are not below n.
void pair_sum(const float* x, std::int64_t n, std::int64_t i, float* out);

/// The same in the memory of x: body(i) of two launches, one after the other. `scratch` has n
/// elements.
void first_body(float* x, std::int64_t n, std::int64_t i, float* scratch);
void second_body(float* x, std::int64_t n, std::int64_t i, float* scratch);
