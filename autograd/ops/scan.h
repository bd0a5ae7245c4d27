#pragma once
// Running products, extremes and sums of exponentials along a dimension. Composed of ⌈log2 n⌉
// element-wise passes, in each of which every element is joined with the one 1, 2, 4, … places
// before it (Hillis and Steele, 1986). So they have gradients of any order, also where elements are
// 0, and run on every device. cumsum (reduce.h) has a kernel of its own. Results and gradients
// agree with the functions of the same name in torch.

#include "autograd/ops/reduce.h"

namespace rondo {

/// x[0] · … · x[i] along dim, computed in f64. Products of integers and bools are i64. The factors
/// are joined as a tree: for f64, part of a product may overflow where the whole does not.
Tensor cumprod(const Tensor& x, std::int64_t dim);
/// log(exp x[0] + … + exp x[i]) along dim, without overflow. Needs a floating-point x.
Tensor logcumsumexp(const Tensor& x, std::int64_t dim);
/// The largest (smallest) of x[0] … x[i] along dim, and its index; of equal ones the last. NaN
/// counts as the largest (smallest). The gradient goes to the chosen element.
ValuesAndIndices cummax(const Tensor& x, std::int64_t dim);
ValuesAndIndices cummin(const Tensor& x, std::int64_t dim);

}  // namespace rondo
