#pragma once
// What start.cpp and solution.cpp define.

#include <rondo/rondo.h>

/// The windows of `size` elements of a vector x, each beginning `step` elements after the previous
/// one, as the rows of a matrix. All elements of a window are in x. Shares x's memory.
rondo::Tensor windows(const rondo::Tensor& x, std::int64_t size, std::int64_t step);
