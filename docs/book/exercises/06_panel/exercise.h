#pragma once
// What start.cpp and solution.cpp define.

#include <cstdint>

constexpr std::int64_t panel = 8;  // the columns that the kernel multiplies at a time

/// Copies a row-major matrix (depth, columns) into the order in which the kernel reads it: panel by
/// panel of `panel` columns; in a panel row by row; in a row its columns. Zeros fill the last panel
/// if `panel` does not divide `columns`. `packed` has room for whole panels.
void pack(const float* matrix, std::int64_t depth, std::int64_t columns, float* packed);
