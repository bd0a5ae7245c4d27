#pragma once
// What tests share: tolerances by dtype and reduction length, comparison and copies of tensors.

#include <gtest/gtest.h>

#include <vector>

#include "tensor/creation.h"
#include "tensor/tensor.h"

namespace rondo::test {

/// Largest |a - b| that rounding explains when each element is a sum of `length` products in
/// `dtype`: eps * sqrt(length) * scale * 4, eps the spacing of the dtype at 1. `scale` is the size
/// of the terms.
double tolerance(DType dtype, std::int64_t length = 1, double scale = 1);

/// Fails, naming the first element that differs, unless |a - b| <= atol + rtol |b| everywhere, with
/// NaN equal to NaN, and shapes and dtypes agree.
::testing::AssertionResult all_close(const Tensor& a, const Tensor& b, double atol,
                                     double rtol = 0);

/// A dense copy of x in `dtype` and `format`, past the tape.
Tensor as(const Tensor& x, DType dtype, MemoryFormat format = MemoryFormat::contiguous);

inline constexpr MemoryFormat nhwc = MemoryFormat::channels_last;

/// A one-dimensional f64 tensor that wants a gradient.
Tensor leaf(const std::vector<double>& values);

/// Bit for bit.
::testing::AssertionResult identical(const Tensor& a, const Tensor& b);

}  // namespace rondo::test
