// Tensor's methods that programs call less often. Each calls the free function of the same name.

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/sampling.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/statistics.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"

namespace rondo {

Tensor Tensor::scatter_reduce(std::int64_t dim, const Tensor& index, const Tensor& src,
                              std::string_view reduce, bool include_self) const {
  return rondo::scatter_reduce(*this, dim, index, src, reduce, {.include_self = include_self});
}
Tensor Tensor::index_put(const std::vector<TensorIndex>& where, const Tensor& value,
                         bool accumulate) const {
  return rondo::index_put(*this, where, value, accumulate);
}
Tensor Tensor::take(const Tensor& index) const { return rondo::take(*this, index); }
Tensor Tensor::diag(std::int64_t offset) const { return rondo::diag(*this, offset); }
Tensor Tensor::diag_embed(std::int64_t offset) const { return rondo::diag_embed(*this, offset); }
Tensor Tensor::trace() const { return rondo::trace(*this); }
Tensor Tensor::rot90(std::int64_t k, const Dims& dims) const {
  return rondo::rot90(*this, k, dims);
}
Tensor Tensor::fliplr() const { return rondo::fliplr(*this); }
Tensor Tensor::flipud() const { return rondo::flipud(*this); }

Tensor Tensor::quantile(double q, std::optional<std::int64_t> dim, Flag keepdim) const {
  return rondo::quantile(*this, q, {.dim = dim, .keepdim = keepdim});
}
Tensor Tensor::quantile(const Tensor& q, std::optional<std::int64_t> dim, Flag keepdim) const {
  return rondo::quantile(*this, q, {.dim = dim, .keepdim = keepdim});
}
Unique Tensor::unique() const { return rondo::unique(*this); }
Tensor Tensor::bincount(const Tensor& weights, std::int64_t minlength) const {
  return rondo::bincount(*this, {.weights = weights, .minlength = minlength});
}
Tensor Tensor::histc(std::int64_t bins, double min, double max) const {
  return rondo::histc(*this, {.bins = bins, .min = min, .max = max});
}
Tensor Tensor::cov() const { return rondo::cov(*this); }
Tensor Tensor::corrcoef() const { return rondo::corrcoef(*this); }
Tensor Tensor::diff(std::int64_t n, std::int64_t dim) const {
  return rondo::diff(*this, {.n = n, .dim = dim});
}

Tensor Tensor::mv(const Tensor& other) const { return rondo::mv(*this, other); }
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  return rondo::addmm(*this, a, b, {.beta = beta, .alpha = alpha});
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  return rondo::baddbmm(*this, a, b, {.beta = beta, .alpha = alpha});
}
Tensor Tensor::inner(const Tensor& other) const { return rondo::inner(*this, other); }
Tensor Tensor::kron(const Tensor& other) const { return rondo::kron(*this, other); }
Tensor Tensor::cross(const Tensor& other, std::optional<std::int64_t> dim) const {
  return rondo::cross(*this, other, dim);
}

Tensor Tensor::logical_xor(const Tensor& other) const { return rondo::logical_xor(*this, other); }
Tensor Tensor::bitwise_and(const Tensor& other) const { return rondo::bitwise_and(*this, other); }
Tensor Tensor::bitwise_and(Scalar other) const { return rondo::bitwise_and(*this, other); }
Tensor Tensor::bitwise_or(const Tensor& other) const { return rondo::bitwise_or(*this, other); }
Tensor Tensor::bitwise_or(Scalar other) const { return rondo::bitwise_or(*this, other); }
Tensor Tensor::bitwise_xor(const Tensor& other) const { return rondo::bitwise_xor(*this, other); }
Tensor Tensor::bitwise_xor(Scalar other) const { return rondo::bitwise_xor(*this, other); }
Tensor Tensor::bitwise_left_shift(const Tensor& other) const {
  return rondo::bitwise_left_shift(*this, other);
}
Tensor Tensor::bitwise_left_shift(Scalar other) const {
  return rondo::bitwise_left_shift(*this, other);
}
Tensor Tensor::bitwise_right_shift(const Tensor& other) const {
  return rondo::bitwise_right_shift(*this, other);
}
Tensor Tensor::bitwise_right_shift(Scalar other) const {
  return rondo::bitwise_right_shift(*this, other);
}
Tensor Tensor::bitwise_not() const { return rondo::bitwise_not(*this); }

Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return rondo::isclose(*this, other, {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return rondo::allclose(*this, other, {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
}
bool Tensor::equal(const Tensor& other) const { return rondo::equal(*this, other); }

Tensor Tensor::floor_divide(const Tensor& other) const { return rondo::floor_divide(*this, other); }
Tensor Tensor::floor_divide(Scalar other) const { return rondo::floor_divide(*this, other); }
Tensor Tensor::hypot(const Tensor& other) const { return rondo::hypot(*this, other); }
Tensor Tensor::logaddexp(const Tensor& other) const { return rondo::logaddexp(*this, other); }
Tensor Tensor::copysign(const Tensor& other) const { return rondo::copysign(*this, other); }
Tensor Tensor::heaviside(const Tensor& values) const { return rondo::heaviside(*this, values); }
Tensor Tensor::xlogy(const Tensor& other) const { return rondo::xlogy(*this, other); }
Tensor Tensor::polygamma(std::int64_t n) const { return rondo::polygamma(n, *this); }
Tensor Tensor::prelu(const Tensor& weight) const { return rondo::prelu(*this, weight); }
Tensor Tensor::hardshrink(double lambd) const { return rondo::hardshrink(*this, lambd); }
Tensor Tensor::nan_to_num(double nan, std::optional<double> posinf,
                          std::optional<double> neginf) const {
  return rondo::nan_to_num(*this, {.nan = nan, .posinf = posinf, .neginf = neginf});
}
Tensor Tensor::bernoulli() const { return rondo::bernoulli(*this); }
Tensor Tensor::multinomial(std::int64_t n, bool replacement) const {
  return rondo::multinomial(*this, n, replacement);
}

}  // namespace rondo
