#include "autograd/functional.h"

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo {
namespace {

void check(const char* op, const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
           std::int64_t most) {
  require(f != nullptr, op, ": the function is empty");
  x.require_defined(op, "x");
  require<DTypeError>(is_floating(x.dtype()), op, ": x is ", x.dtype(), ", not a float");
  require<ShapeError>(x.dim() <= most, op, ": x has the shape ", x.shape(),
                      ", but the result may have at most ", Dims::max_rank, " dimensions");
}

/// x as an input of which derivatives are taken; a new leaf unless the results shall depend on x.
Tensor as_input(const Tensor& x, bool depends_on_x) {
  if (depends_on_x && x.requires_grad()) return view(x, x.shape());
  return x.detach().requires_grad_();
}

/// d y / d x, or zeros if y does not depend on x.
Tensor derivative(const Tensor& y, const Tensor& x, const Tensor& dy, bool create_graph) {
  if (!y.requires_grad()) return zeros_like(x);
  const Tensor dx = grad({y}, {x},
                         {.grad_outputs = {dy},
                          .retain_graph = true,
                          .create_graph = create_graph,
                          .allow_unused = true})[0];
  return dx.defined() ? dx : zeros_like(x);
}

}  // namespace

Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, bool create_graph) {
  check("jacobian", f, x, Dims::max_rank);
  const EnableGradGuard recording;
  const Tensor input = as_input(x, create_graph), y = f(input);
  require<ShapeError>(y.dim() + x.dim() <= Dims::max_rank, "jacobian: the shapes ", y.shape(),
                      " and ", x.shape(), " have more than ", Dims::max_rank, " dimensions");
  Dims sizes = y.shape();
  for (const std::int64_t size : x.shape()) sizes.push_back(size);
  if (y.numel() == 0) return zeros(sizes, x.options());
  Tensors rows;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const Tensor dy = zeros({y.numel()}, y.options());
    dy.narrow(0, i, 1).fill_(1);
    rows.push_back(derivative(y, input, dy.reshape(y.shape()), create_graph));
  }
  return reshape(stack(rows, 0), sizes);
}

Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, bool create_graph) {
  check("hessian", f, x, Dims::max_rank / 2);
  const auto gradient = [&](const Tensor& input) {
    const Tensor y = f(input);
    require<ShapeError>(y.numel() == 1, "hessian: f(x) has the shape ", y.shape(),
                        ", but must be one number");
    return derivative(y, input, ones_like(y), true);
  };
  return jacobian(gradient, x, create_graph);
}

}  // namespace rondo
