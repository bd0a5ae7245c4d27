#pragma once
// Code shared by the losses. Not for users.

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "tensor/error.h"

namespace rondo {

inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      return losses;
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      break;
    case Reduction::batchmean:
      throw Error("the reduction batchmean is for kl_div only; use mean or sum");
  }
  return sum(losses);
}

inline void require_pair(const Tensor& x, const Tensor& y, const char* op) {
  require<ShapeError>(x.shape() == y.shape(), op, ": input ", x.shape(), " and target ", y.shape(),
                      " differ in shape");
  require_float(x, op);
}

/// op(x, y) by one kernel, in the type to which both are promoted; without a gradient.
inline Tensor pairwise(BinaryOp op, const Tensor& x, const Tensor& y, const char* name,
                       OpParams params = {}) {
  const DType common = result_type(x, y, name);
  return detail::compute(op, x, y, common, common, params, name);
}

/// Each loss times its weight, which may be undefined.
inline Tensor weighted(const char* op, const Tensor& losses, const Tensor& weight) {
  if (!weight.defined()) return losses;
  require<ShapeError>(broadcast_shapes(weight.shape(), losses.shape()) == losses.shape(), op,
                      ": weight ", weight.shape(), " does not fit ", losses.shape());
  return losses * weight;
}

}  // namespace rondo
