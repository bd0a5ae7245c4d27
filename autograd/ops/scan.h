#pragma once
// Running products, extremes and sums of exponentials along a dimension. Products and extremes have
// a kernel (Backend::scan), as cumsum (reduce.h) has. logcumsumexp, and second derivatives of
// products, are composed of ⌈log2 n⌉ element-wise passes, in each of which every element is joined
// with the one 1, 2, 4, … places before it (Hillis and Steele, 1986): so they have gradients of any
// order. Results and gradients agree with the functions of the same name in torch.

#include "autograd/ops/reduce.h"

namespace rondo {

/// x[0] · … · x[i] along dim, computed in f64. Products of integers and bools are i64. A GPU joins
/// the factors as a tree, and so do gradients with create_graph and exported graphs: part of a
/// product may overflow there where the whole does not, and a gradient next to an infinity be NaN.
Tensor cumprod(const Tensor& x, std::int64_t dim);
/// log(exp x[0] + … + exp x[i]) along dim, without overflow. Needs a floating-point x.
Tensor logcumsumexp(const Tensor& x, std::int64_t dim);
/// The largest (smallest) of x[0] … x[i] along dim, and its index; of equal ones the last. NaN
/// counts as the largest (smallest). The gradient goes to the chosen element.
ValuesAndIndices cummax(const Tensor& x, std::int64_t dim);
ValuesAndIndices cummin(const Tensor& x, std::int64_t dim);

}  // namespace rondo
