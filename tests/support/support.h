#pragma once
// Common functions of tests: tolerances by dtype and reduction length, comparisons and copies of
// tensors.

#include <gtest/gtest.h>

#include <vector>

#include "tensor/creation.h"
#include "tensor/tensor.h"

namespace rondo::test {

/// The largest |a - b| that rounding explains if each element is a sum of `length` products in
/// `dtype`: eps * sqrt(length) * scale * 4, where eps is the spacing of the dtype at 1 and `scale`
/// is the size of the terms.
double tolerance(DType dtype, std::int64_t length = 1, double scale = 1);

/// Fails, naming the first element that differs, unless |a - b| <= atol + rtol |b| everywhere, and
/// shapes and dtypes are equal. NaN equals NaN.
::testing::AssertionResult all_close(const Tensor& a, const Tensor& b, double atol,
                                     double rtol = 0);

/// A dense copy of x in `dtype` and `format`, which is not recorded.
Tensor as(const Tensor& x, DType dtype, MemoryFormat format = MemoryFormat::contiguous);

inline constexpr MemoryFormat nhwc = MemoryFormat::channels_last;

/// A one-dimensional f64 tensor that requires a gradient.
Tensor leaf(const std::vector<double>& values);

/// Whether both are bit-identical.
::testing::AssertionResult identical(const Tensor& a, const Tensor& b);

}  // namespace rondo::test
