// Reductions that add. The kernels keep reduced dimensions with size 1; removing them only changes
// the shape. In backward, a sum spreads its gradient. Reductions that choose elements are in
// pick.cpp.

#include "autograd/ops/reduce.h"

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// The dimensions that have size 1 now. (Some may have had size 1 before; reducing those changes
/// nothing.)
void tell_dims(AttributeVisitor& v, const Dims& kept) {
  Dims dims;
  for (std::int64_t d = 0; d < kept.size(); ++d)
    if (kept[d] == 1) dims.push_back(d);
  v.integers("dims", dims);
}

struct SumBackward final : Node {
  Dims kept, input;
  SumBackward(const Dims& kept, const Dims& input) : kept(kept), input(input) {}
  const char* name() const override { return "sum"; }
  Tensors backward(const Tensors& dy) override { return {spread(dy[0], kept, input)}; }
  void attributes(AttributeVisitor& v) override { tell_dims(v, kept); }
};

struct MeanBackward final : Node {
  Dims kept, input;
  std::int64_t length;
  MeanBackward(const Reduced& shape, const Dims& input)
      : kept(shape.kept), input(input), length(shape.length) {}
  const char* name() const override { return "mean"; }
  Tensors backward(const Tensors& dy) override {
    return {spread(div(dy[0], static_cast<double>(length)), kept, input)};
  }
  void attributes(AttributeVisitor& v) override { tell_dims(v, kept); }
};

/// The mean, computed in the dtype `wide` and rounded to `out`.
Tensor mean_by(const Tensor& x, const Reduced& shape, DType wide, DType out) {
  const Tensor y = no_grad([&] {
    const Tensor total = reduce_kept(ReductionOp::sum, x, shape, wide);
    return to(renamed(div(total, static_cast<double>(shape.length)), shape.result), out);
  });
  return record<MeanBackward>({x}, y, shape, x.shape());
}

/// dy / (factor y), and 0 where y is 0. (y is replaced before the division: after a division by 0
/// the second derivative would be NaN, even if the quotient were replaced.)
Tensor divided(const Tensor& dy, const Tensor& y, double factor = 1) {
  Tensor is_zero = eq(y, 0.0);
  Tensor divisor = masked_fill(y, is_zero, 1.0);
  return masked_fill(div(dy, factor == 1 ? divisor : mul(divisor, factor)), is_zero, 0.0);
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpRange op("sum");
  if (const Casts cast{AutocastOp::sum, x}) return sum(cast(x), dims, keepdim);
  Reduced shape = reduced(x, dims, keepdim, "sum");
  DType dtype = is_floating(x.dtype()) ? x.dtype() : i64;
  Tensor y = renamed(reduce_kept(ReductionOp::sum, x, shape, dtype), shape.result);
  return record<SumBackward>({x}, y, shape.kept, x.shape());
}

Tensor mean(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpRange op("mean");
  require_float(x, "mean");
  return mean_by(x, reduced(x, dims, keepdim, "mean"), wide_dtype(x), x.dtype());
}

namespace {

/// dx = 2 (x - mean) dy / (n - correction), in f64.
struct VarBackward final : Node {
  SavedTensor x;
  Dims dims, kept;
  std::int64_t correction;
  double degrees;
  VarBackward(const Tensor& x, const Dims& dims, const Dims& kept, std::int64_t correction,
              double degrees)
      : x(x), dims(dims), kept(kept), correction(correction), degrees(degrees) {}
  const char* name() const override { return "var"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor x = this->x.get(*this);
    Tensor slope = mul(to(dy[0], f64), 2 / degrees);
    const Tensor mean = mean_by(x, reduced(x, dims, true, "var"), f64, f64);
    return {mul(sub(x, mean), spread(slope, kept, x.shape()))};
  }
  void release_saved() override { x.reset(); }
  void attributes(AttributeVisitor& v) override {
    tell_dims(v, kept);
    v.integer("correction", correction);
  }
};

/// Computed in f64, where the square of every f32 is representable; the squares of 1e30 and 1e-30
/// are outside the range of f32.
Tensor variance(const Tensor& x, const Dims& dims, std::int64_t correction, Flag keepdim) {
  Reduced shape = reduced(x, dims, keepdim, "var");
  const auto degrees = static_cast<double>(std::max<std::int64_t>(shape.length - correction, 0));
  Tensor y = no_grad([&] {
    const Tensor wide = widened(x);  // 16 bits are converted once
    const Tensor mean = mean_by(wide, reduced(x, dims, true, "var"), f64, f64);
    Tensor squares = reduce_kept(ReductionOp::sum_squares, sub(wide, mean), shape, f64);
    return renamed(div(squares, degrees), shape.result);
  });
  return record<VarBackward>({x}, y, x, dims, shape.kept, correction, degrees);
}

/// d sqrt(v) = dv / (2 y), and 0 where y is 0, that is, for a constant input.
struct StdBackward final : Node {
  SavedTensor y;
  explicit StdBackward(const Tensor& y) : y(y, SavedTensor::output) {}
  const char* name() const override { return "std"; }
  Tensors backward(const Tensors& dy) override { return {divided(dy[0], this->y.get(*this), 2)}; }
  void release_saved() override { y.reset(); }
};

}  // namespace

Tensor var(const Tensor& x, const Dims& dims, std::int64_t correction, Flag keepdim) {
  const OpRange op("var");
  require_float(x, "var");
  return to(variance(x, dims, correction, keepdim), x.dtype());
}

Tensor std(const Tensor& x, const Dims& dims, std::int64_t correction, Flag keepdim) {
  const OpRange op("std");
  require_float(x, "std");
  Tensor squared = variance(x, dims, correction, keepdim);
  Tensor y = apply_unary(UnaryOp::sqrt, squared);
  return to(record<StdBackward>({squared}, y, y), x.dtype());
}

Tensor prod(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpRange op("prod");
  if (const Casts cast{AutocastOp::prod, x}) return prod(cast(x), dims, keepdim);
  const Reduced shape = reduced(x, dims, keepdim, "prod");
  if (!is_floating(x.dtype()) || x.numel() == 0) {
    const DType dtype = is_floating(x.dtype()) ? x.dtype() : i64;
    const Tensor y = renamed(reduce_kept(ReductionOp::prod, x, shape, dtype), shape.result);
    return is_floating(dtype) ? add(y, sum(x, dims, keepdim)) : y;  // the sum is 0, and recorded
  }
  if (!TraceMode::is_enabled() && !(GradMode::is_enabled() && x.requires_grad())) {
    const Tensor y = reduce_kept(ReductionOp::prod, x, shape, wide_dtype(x));
    return to(renamed(y, shape.result), x.dtype());
  }
  // The reduced dimensions, merged at the end, are multiplied as a tree of halves: its derivatives,
  // of any order, are correct even where elements are zero, unlike y / x.
  Dims order, sizes, last;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    const bool is_reduced = shape.kept[d] != x.size(d) || x.size(d) == 1;
    (is_reduced ? last : order).push_back(d);
    if (!is_reduced) sizes.push_back(x.size(d));
  }
  for (std::int64_t d : last) order.push_back(d);
  sizes.push_back(shape.length);
  Tensor y = reshape(permute(widened(x), order), sizes);
  for (std::int64_t n = shape.length; n > 1; n = y.size(-1)) {
    const std::int64_t half = n / 2;
    const Tensor pairs = mul(narrow(y, -1, 0, half), narrow(y, -1, half, half));
    y = n % 2 == 0 ? pairs : cat({pairs, narrow(y, -1, 2 * half, 1)}, -1);
  }
  return detail::as_result(to(reshape(y, shape.result), x.dtype()), x);
}

namespace {

/// d |x| = x / |x| dy, and 0 where |x| is 0.
struct L2NormBackward final : Node {
  SavedTensor x, y;
  Dims kept;
  L2NormBackward(const Tensor& x, const Tensor& y, const Dims& kept)
      : x(x), y(y, SavedTensor::output), kept(kept) {}
  const char* name() const override { return "norm"; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = spread(this->y.get(*this), kept, x.shape());
    // x / |x| is at most 1, whereas dy / |x| may be infinite.
    return {mul(divided(x, y), spread(dy[0], kept, x.shape()))};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
  void attributes(AttributeVisitor& v) override { tell_dims(v, kept); }
};

}  // namespace

Tensor norm(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpRange op("norm");
  if (const Casts cast{AutocastOp::norm, x}) return norm(cast(x), dims, keepdim);
  require_float(x, "norm");
  Reduced shape = reduced(x, dims, keepdim, "norm");
  Tensor y = no_grad([&] {
    Tensor squares = reduce_kept(ReductionOp::sum_squares, x, shape, wide_dtype(x));
    return to(renamed(sqrt(squares), shape.result), x.dtype());
  });
  return record<L2NormBackward>({x}, y, x, y, shape.kept);
}

namespace {

/// d y / d x = sign(x) (|x| / y)^(ord - 1); for infinity sign(x) where |x| = y (or both are NaN),
/// divided by their number.
struct VectorNormBackward final : Node {
  SavedTensor x, y;
  Dims kept;
  double ord;
  VectorNormBackward(const Tensor& x, const Tensor& y, const Dims& kept, double ord)
      : x(x), y(y, SavedTensor::output), kept(kept), ord(ord) {}
  const char* name() const override { return "vector_norm"; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = spread(this->y.get(*this), kept, x.shape());
    Tensor slope;
    if (std::isinf(ord)) {
      slope = no_grad([&] {
        Tensor hit = to(equal_or_both_nan(abs(x), y), promote(x.dtype(), f32));
        return to(div(mul(sign(x), hit), spread(sum_to(hit, kept), kept, x.shape())), x.dtype());
      });
    } else {
      Tensor is_zero = eq(x, 0.0);
      Tensor part = div(abs(x), masked_fill(y, eq(y, 0.0), 1.0));
      Tensor power = pow(masked_fill(part, is_zero, 1.0), ord - 1);  // 0^(ord - 1) may be inf
      slope = masked_fill(mul(sign(x), power), is_zero, 0.0);
    }
    return {mul(slope, spread(dy[0], kept, x.shape()))};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
};

}  // namespace

Tensor vector_norm(const Tensor& x, double ord, const Dims& dims, Flag keepdim) {
  const OpRange op("vector_norm");
  if (const Casts cast{AutocastOp::norm, x}) return vector_norm(cast(x), ord, dims, keepdim);
  require(ord > 0, "vector_norm: ord ", ord, " is not positive");
  if (ord == 2) return norm(x, dims, keepdim);
  require_float(x, "vector_norm");
  Reduced shape = reduced(x, dims, keepdim, "vector_norm");
  require<ShapeError>(!std::isinf(ord) || shape.length > 0, "vector_norm: the tensor ", x.shape(),
                      " has no elements to find the largest of");
  Tensor y = no_grad([&] {
    if (std::isinf(ord)) return reduce_kept(ReductionOp::max, abs(x), shape, x.dtype());
    Tensor size = abs(to(x, f64));  // its powers may be outside the range of f32
    Tensor powers = reduce_kept(ReductionOp::sum, pow(size, ord), shape, f64);
    return to(pow(powers, 1 / ord), x.dtype());
  });
  y = renamed(y, shape.result);
  return record<VectorNormBackward>({x}, y, x, y, shape.kept, ord);
}

namespace {

/// dx = dy exp(x - y), the softmax of x.
struct LogSumExpBackward final : Node {
  SavedTensor x, y;
  Dims kept;
  LogSumExpBackward(const Tensor& x, const Tensor& y, const Dims& kept)
      : x(x), y(y, SavedTensor::output), kept(kept) {}
  const char* name() const override { return "logsumexp"; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = this->y.get(*this);
    Tensor softmax = exp(sub(x, spread(y, kept, x.shape())));
    return {mul(softmax, spread(dy[0], kept, x.shape()))};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
  void attributes(AttributeVisitor& v) override { tell_dims(v, kept); }
};

}  // namespace

Tensor logsumexp(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpRange op("logsumexp");
  if (const Casts cast{AutocastOp::logsumexp, x}) return logsumexp(cast(x), dims, keepdim);
  if (!is_floating(x.dtype())) return logsumexp(as_float(x, "logsumexp"), dims, keepdim);
  Reduced shape = reduced(x, dims, keepdim, "logsumexp");
  Tensor y = no_grad([&] {
    if (x.numel() == 0) return log(sum(x, dims, keepdim));
    Tensor wide = widened(x);
    Tensor top = reduce_kept(ReductionOp::max, wide, shape, wide.dtype());
    top = masked_fill(top, isinf(top), 0.0);  // inf - inf would be NaN
    Tensor total = reduce_kept(ReductionOp::sum, exp(sub(wide, top)), shape, wide.dtype());
    return to(renamed(add(log(total), top), shape.result), x.dtype());
  });
  return record<LogSumExpBackward>({x}, y, x, y, shape.kept);
}

namespace {

Tensor running_sum(const Tensor& x, std::int64_t dim, bool reverse);

/// The transpose of a cumulative sum runs from the other end.
struct CumsumBackward final : Node {
  std::int64_t dim;
  bool reverse;
  CumsumBackward(std::int64_t dim, bool reverse) : dim(dim), reverse(reverse) {}
  const char* name() const override { return "cumsum"; }
  Tensors backward(const Tensors& dy) override { return {running_sum(dy[0], dim, !reverse)}; }
  void attributes(AttributeVisitor& v) override { v.integer("dim", dim); }
};

Tensor running_sum(const Tensor& x, std::int64_t dim, bool reverse) {
  Tensor y = Tensor::empty_like(x);
  backend(x).scan(ScanOp::sum, x, dim, reverse, y);
  return record<CumsumBackward>({x}, y, dim, reverse);
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim) {
  const OpName op("cumsum");
  if (const Casts cast{AutocastOp::cumsum, x}) return cumsum(cast(x), dim);
  dim = wrap_dim(dim, x.dim(), "cumsum");
  if (x.dim() == 0) return reshape(cumsum(reshape(x, {1}), 0), {});
  return running_sum(is_floating(x.dtype()) ? x : to(x, i64), dim, false);
}

}  // namespace rondo
