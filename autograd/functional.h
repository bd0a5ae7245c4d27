#pragma once
// jacobian and hessian: the derivatives of a function as tensors. They agree with those of
// torch.autograd.functional for one input and one output.

#include <functional>

#include "tensor/tensor.h"

namespace rondo {

/// J[i…, j…] = d y[i…] / d x[j…] for y = f(x): the shape of y, then that of x. One backward for
/// each element of y. Elements on which f does not depend are 0. With create_graph the result is on
/// the tape where it depends on parameters, or on an x that requires a gradient. Throws DTypeError
/// if x is not a float, and ShapeError if the result would have more than eight dimensions; so does
/// hessian.
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                bool create_graph = false);
/// H[i…, j…] = d² f(x) / d x[i…] d x[j…]: the shape of x twice. Throws ShapeError if f(x) is not
/// one number.
Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
               bool create_graph = false);

}  // namespace rondo
