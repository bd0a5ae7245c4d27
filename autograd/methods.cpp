// Tensor's differentiable methods. Each calls the free function of the same name in autograd/ops,
// or combines several of them (t, T, repeat). The others are in more_methods.cpp and in_place.cpp.

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/statistics.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/record_function.h"

namespace rondo {

Tensor Tensor::to(DType dtype) const { return rondo::to(*this, dtype); }
Tensor Tensor::to(Device device) const { return rondo::to(*this, device); }
Tensor Tensor::contiguous(MemoryFormat format) const { return rondo::contiguous(*this, format); }
Tensor Tensor::clone() const { return rondo::clone(*this); }

Tensor Tensor::reshape(const Dims& sizes) const { return rondo::reshape(*this, sizes); }
Tensor Tensor::view(const Dims& sizes) const { return rondo::view(*this, sizes); }
Tensor Tensor::flatten(std::int64_t start_dim, std::int64_t end_dim) const {
  return rondo::flatten(*this, start_dim, end_dim);
}
Tensor Tensor::squeeze() const { return rondo::squeeze(*this); }
Tensor Tensor::squeeze(std::int64_t dim) const { return rondo::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(std::int64_t dim) const { return rondo::unsqueeze(*this, dim); }
Tensor Tensor::expand(const Dims& sizes) const { return rondo::expand(*this, sizes); }
Tensor Tensor::permute(const Dims& order) const { return rondo::permute(*this, order); }
Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  return rondo::transpose(*this, a, b);
}
Tensor Tensor::t() const {
  const OpName op("t");
  require<ShapeError>(dim() <= 2, "t: the tensor has ", dim(),
                      " dimensions, at most 2 are allowed");
  return dim() < 2 ? rondo::reshape(*this, shape()) : rondo::transpose(*this, 0, 1);
}
Tensor Tensor::T() const {
  const OpName op("T");
  Dims order;
  for (std::int64_t d = dim(); d-- > 0;) order.push_back(d);
  return rondo::permute(*this, order);
}
Tensor Tensor::repeat(const Dims& repeats) const {
  const OpName op("repeat");
  const std::int64_t added = repeats.size() - dim();
  require<ShapeError>(added >= 0, "repeat: ", repeats,
                      " has fewer dimensions than the tensor, of shape ", shape());
  Dims sizes = Dims::filled(added, 1);
  for (const std::int64_t size : shape()) sizes.push_back(size);
  Tensor y = rondo::reshape(*this, sizes);
  for (std::int64_t d = 0; d < repeats.size(); ++d) {
    require<ShapeError>(repeats[d] >= 0, "repeat: ", repeats, " has a negative number");
    if (repeats[d] == 1) continue;
    std::int64_t outer = 1, inner = 1;
    for (std::int64_t i = 0; i < y.dim(); ++i) (i < d ? outer : inner) *= sizes[i];
    sizes[d] = (CheckedSize(sizes[d], "repeat") * repeats[d]).value();
    numel_of(sizes);  // throws if there are too many elements
    y = rondo::reshape(
        rondo::expand(rondo::reshape(y, {outer, 1, inner}), {outer, repeats[d], inner}), sizes);
  }
  return detail::as_result(y, *this);
}
Tensor Tensor::flip(const Dims& dims) const { return rondo::flip(*this, dims); }
Tensor Tensor::select(std::int64_t dim, std::int64_t index) const {
  return rondo::select(*this, dim, index);
}
Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  return rondo::narrow(*this, dim, start, length);
}
Tensor Tensor::index_select(std::int64_t dim, const Tensor& index) const {
  return rondo::index_select(*this, dim, index);
}
Tensor Tensor::gather(std::int64_t dim, const Tensor& index) const {
  return rondo::gather(*this, dim, index);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return rondo::masked_fill(*this, mask, value);
}
Tensor Tensor::scatter(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return rondo::scatter(*this, dim, index, src);
}
Tensor Tensor::scatter(std::int64_t dim, const Tensor& index, Scalar value) const {
  return rondo::scatter(*this, dim, index, value);
}
Tensor Tensor::scatter_add(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return rondo::scatter_add(*this, dim, index, src);
}
Tensor Tensor::index_add(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return rondo::index_add(*this, dim, index, src);
}
Tensor Tensor::index_copy(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return rondo::index_copy(*this, dim, index, src);
}
Tensor Tensor::index_fill(std::int64_t dim, const Tensor& index, Scalar value) const {
  return rondo::index_fill(*this, dim, index, value);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return rondo::masked_select(*this, mask); }
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& source) const {
  return rondo::masked_scatter(*this, mask, source);
}
Tensor Tensor::take_along_dim(const Tensor& index, std::optional<std::int64_t> dim) const {
  return rondo::take_along_dim(*this, index, dim);
}
Tensor Tensor::nonzero() const { return rondo::nonzero(*this); }
Tensor Tensor::diagonal(std::int64_t offset, std::int64_t dim1, std::int64_t dim2) const {
  return rondo::diagonal(*this, offset, dim1, dim2);
}
Tensor Tensor::tril(std::int64_t diagonal) const { return rondo::tril(*this, diagonal); }
Tensor Tensor::triu(std::int64_t diagonal) const { return rondo::triu(*this, diagonal); }
Tensor Tensor::roll(const Dims& shifts, const Dims& dims) const {
  return rondo::roll(*this, shifts, dims);
}
Tensor Tensor::movedim(const Dims& source, const Dims& destination) const {
  return rondo::movedim(*this, source, destination);
}
Tensor Tensor::unflatten(std::int64_t dim, const Dims& sizes) const {
  return rondo::unflatten(*this, dim, sizes);
}
Tensor Tensor::tile(const Dims& repeats) const { return rondo::tile(*this, repeats); }
Tensor Tensor::repeat_interleave(std::int64_t repeats, std::optional<std::int64_t> dim) const {
  return rondo::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::repeat_interleave(const Tensor& repeats, std::optional<std::int64_t> dim) const {
  return rondo::repeat_interleave(*this, repeats, dim);
}
std::vector<Tensor> Tensor::unbind(std::int64_t dim) const { return rondo::unbind(*this, dim); }
std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t dim) const {
  return rondo::split(*this, size, dim);
}
std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, std::int64_t dim) const {
  return rondo::split(*this, sizes, dim);
}
std::vector<Tensor> Tensor::tensor_split(std::int64_t sections, std::int64_t dim) const {
  return rondo::tensor_split(*this, sections, dim);
}
Tensor Tensor::unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const {
  return rondo::unfold(*this, dim, size, step);
}
std::vector<Tensor> Tensor::chunk(std::int64_t chunks, std::int64_t dim) const {
  return rondo::chunk(*this, chunks, dim);
}

Tensor Tensor::sum() const { return rondo::sum(*this); }
Tensor Tensor::sum(const Dims& dims, Flag keepdim) const {
  return rondo::sum(*this, dims, keepdim);
}
Tensor Tensor::mean() const { return rondo::mean(*this); }
Tensor Tensor::mean(const Dims& dims, Flag keepdim) const {
  return rondo::mean(*this, dims, keepdim);
}
Tensor Tensor::max() const { return rondo::max(*this); }
Tensor Tensor::min() const { return rondo::min(*this); }
Tensor Tensor::argmax() const { return rondo::argmax(*this); }
Tensor Tensor::argmax(std::int64_t dim, Flag keepdim) const {
  return rondo::argmax(*this, dim, keepdim);
}
Tensor Tensor::argmin() const { return rondo::argmin(*this); }
Tensor Tensor::argmin(std::int64_t dim, Flag keepdim) const {
  return rondo::argmin(*this, dim, keepdim);
}
Tensor Tensor::var(const Dims& dims, std::int64_t correction, Flag keepdim) const {
  return rondo::var(*this, dims, correction, keepdim);
}
Tensor Tensor::std(const Dims& dims, std::int64_t correction, Flag keepdim) const {
  return rondo::std(*this, dims, correction, keepdim);
}
Tensor Tensor::prod(const Dims& dims, Flag keepdim) const {
  return rondo::prod(*this, dims, keepdim);
}
Tensor Tensor::amax(const Dims& dims, Flag keepdim) const {
  return rondo::amax(*this, dims, keepdim);
}
Tensor Tensor::amin(const Dims& dims, Flag keepdim) const {
  return rondo::amin(*this, dims, keepdim);
}
Tensor Tensor::all(const Dims& dims, Flag keepdim) const {
  return rondo::all(*this, dims, keepdim);
}
Tensor Tensor::any(const Dims& dims, Flag keepdim) const {
  return rondo::any(*this, dims, keepdim);
}
Tensor Tensor::median() const { return rondo::median(*this); }
ValuesAndIndices Tensor::max(std::int64_t dim, Flag keepdim) const {
  return rondo::max(*this, dim, keepdim);
}
ValuesAndIndices Tensor::min(std::int64_t dim, Flag keepdim) const {
  return rondo::min(*this, dim, keepdim);
}
ValuesAndIndices Tensor::sort(std::int64_t dim, bool descending) const {
  return rondo::sort(*this, dim, descending);
}
ValuesAndIndices Tensor::topk(std::int64_t k, std::int64_t dim, bool largest) const {
  return rondo::topk(*this, k, dim, largest);
}
ValuesAndIndices Tensor::median(std::int64_t dim, Flag keepdim) const {
  return rondo::median(*this, dim, keepdim);
}
ValuesAndIndices Tensor::kthvalue(std::int64_t k, std::int64_t dim, Flag keepdim) const {
  return rondo::kthvalue(*this, k, dim, keepdim);
}
Tensor Tensor::argsort(std::int64_t dim, bool descending) const {
  return rondo::argsort(*this, dim, descending);
}
Tensor Tensor::norm(const Dims& dims, Flag keepdim) const {
  return rondo::norm(*this, dims, keepdim);
}
Tensor Tensor::logsumexp(const Dims& dims, Flag keepdim) const {
  return rondo::logsumexp(*this, dims, keepdim);
}
Tensor Tensor::nansum(const Dims& dims, Flag keepdim) const {
  return rondo::nansum(*this, dims, keepdim);
}
Tensor Tensor::nanmean(const Dims& dims, Flag keepdim) const {
  return rondo::nanmean(*this, dims, keepdim);
}
Tensor Tensor::count_nonzero(const Dims& dims) const { return rondo::count_nonzero(*this, dims); }
Tensor Tensor::cumsum(std::int64_t dim) const { return rondo::cumsum(*this, dim); }
Tensor Tensor::cumprod(std::int64_t dim) const { return rondo::cumprod(*this, dim); }
Tensor Tensor::logcumsumexp(std::int64_t dim) const { return rondo::logcumsumexp(*this, dim); }
ValuesAndIndices Tensor::cummax(std::int64_t dim) const { return rondo::cummax(*this, dim); }
ValuesAndIndices Tensor::cummin(std::int64_t dim) const { return rondo::cummin(*this, dim); }

Tensor Tensor::matmul(const Tensor& other) const { return rondo::matmul(*this, other); }
Tensor Tensor::mm(const Tensor& other) const { return rondo::mm(*this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return rondo::bmm(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return rondo::dot(*this, other); }
Tensor Tensor::outer(const Tensor& other) const { return rondo::outer(*this, other); }
Tensor Tensor::add(const Tensor& other, double alpha) const {
  return rondo::add(*this, other, alpha);
}
Tensor Tensor::sub(const Tensor& other, double alpha) const {
  return rondo::sub(*this, other, alpha);
}
Tensor Tensor::mul(const Tensor& other) const { return rondo::mul(*this, other); }
Tensor Tensor::div(const Tensor& other) const { return rondo::div(*this, other); }
Tensor Tensor::add(Scalar other) const { return rondo::add(*this, other); }
Tensor Tensor::sub(Scalar other) const { return rondo::sub(*this, other); }
Tensor Tensor::mul(Scalar other) const { return rondo::mul(*this, other); }
Tensor Tensor::div(Scalar other) const { return rondo::div(*this, other); }
Tensor Tensor::eq(const Tensor& other) const { return rondo::eq(*this, other); }
Tensor Tensor::ne(const Tensor& other) const { return rondo::ne(*this, other); }
Tensor Tensor::lt(const Tensor& other) const { return rondo::lt(*this, other); }
Tensor Tensor::le(const Tensor& other) const { return rondo::le(*this, other); }
Tensor Tensor::gt(const Tensor& other) const { return rondo::gt(*this, other); }
Tensor Tensor::ge(const Tensor& other) const { return rondo::ge(*this, other); }
Tensor Tensor::eq(Scalar other) const { return rondo::eq(*this, other); }
Tensor Tensor::ne(Scalar other) const { return rondo::ne(*this, other); }
Tensor Tensor::lt(Scalar other) const { return rondo::lt(*this, other); }
Tensor Tensor::le(Scalar other) const { return rondo::le(*this, other); }
Tensor Tensor::gt(Scalar other) const { return rondo::gt(*this, other); }
Tensor Tensor::ge(Scalar other) const { return rondo::ge(*this, other); }
Tensor Tensor::logical_and(const Tensor& other) const { return rondo::logical_and(*this, other); }
Tensor Tensor::logical_or(const Tensor& other) const { return rondo::logical_or(*this, other); }
Tensor Tensor::maximum(const Tensor& other) const { return rondo::maximum(*this, other); }
Tensor Tensor::minimum(const Tensor& other) const { return rondo::minimum(*this, other); }
Tensor Tensor::atan2(const Tensor& other) const { return rondo::atan2(*this, other); }
Tensor Tensor::fmod(const Tensor& other) const { return rondo::fmod(*this, other); }
Tensor Tensor::remainder(const Tensor& other) const { return rondo::remainder(*this, other); }
Tensor Tensor::fmod(Scalar other) const { return rondo::fmod(*this, other); }
Tensor Tensor::remainder(Scalar other) const { return rondo::remainder(*this, other); }
Tensor Tensor::lerp(const Tensor& end, double weight) const {
  return rondo::lerp(*this, end, weight);
}
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const {
  return rondo::lerp(*this, end, weight);
}
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, double value) const {
  return rondo::addcmul(*this, a, b, {.value = value});
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, double value) const {
  return rondo::addcdiv(*this, a, b, {.value = value});
}
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const {
  return rondo::where(condition, *this, other);
}
Tensor Tensor::where(const Tensor& condition, Scalar other) const {
  return rondo::where(condition, *this, other);
}
Tensor Tensor::pow(const Tensor& exponent) const { return rondo::pow(*this, exponent); }
Tensor Tensor::pow(Scalar exponent) const { return rondo::pow(*this, exponent); }
Tensor Tensor::exp() const { return rondo::exp(*this); }
Tensor Tensor::neg() const { return rondo::neg(*this); }
Tensor Tensor::expm1() const { return rondo::expm1(*this); }
Tensor Tensor::log1p() const { return rondo::log1p(*this); }
Tensor Tensor::exp2() const { return rondo::exp2(*this); }
Tensor Tensor::log2() const { return rondo::log2(*this); }
Tensor Tensor::log10() const { return rondo::log10(*this); }
Tensor Tensor::reciprocal() const { return rondo::reciprocal(*this); }
Tensor Tensor::tan() const { return rondo::tan(*this); }
Tensor Tensor::sinh() const { return rondo::sinh(*this); }
Tensor Tensor::cosh() const { return rondo::cosh(*this); }
Tensor Tensor::asin() const { return rondo::asin(*this); }
Tensor Tensor::acos() const { return rondo::acos(*this); }
Tensor Tensor::atan() const { return rondo::atan(*this); }
Tensor Tensor::asinh() const { return rondo::asinh(*this); }
Tensor Tensor::acosh() const { return rondo::acosh(*this); }
Tensor Tensor::atanh() const { return rondo::atanh(*this); }
Tensor Tensor::erf() const { return rondo::erf(*this); }
Tensor Tensor::erfc() const { return rondo::erfc(*this); }
Tensor Tensor::erfinv() const { return rondo::erfinv(*this); }
Tensor Tensor::lgamma() const { return rondo::lgamma(*this); }
Tensor Tensor::digamma() const { return rondo::digamma(*this); }
Tensor Tensor::sinc() const { return rondo::sinc(*this); }
Tensor Tensor::deg2rad() const { return rondo::deg2rad(*this); }
Tensor Tensor::rad2deg() const { return rondo::rad2deg(*this); }
Tensor Tensor::frac() const { return rondo::frac(*this); }
Tensor Tensor::isposinf() const { return rondo::isposinf(*this); }
Tensor Tensor::isneginf() const { return rondo::isneginf(*this); }
Tensor Tensor::signbit() const { return rondo::signbit(*this); }
Tensor Tensor::logit(std::optional<double> eps) const { return rondo::logit(*this, eps); }
Tensor Tensor::trunc() const { return rondo::trunc(*this); }
Tensor Tensor::logical_not() const { return rondo::logical_not(*this); }
Tensor Tensor::isinf() const { return rondo::isinf(*this); }
Tensor Tensor::silu() const { return rondo::silu(*this); }
Tensor Tensor::softplus() const { return rondo::softplus(*this); }
Tensor Tensor::log() const { return rondo::log(*this); }
Tensor Tensor::sqrt() const { return rondo::sqrt(*this); }
Tensor Tensor::abs() const { return rondo::abs(*this); }
Tensor Tensor::square() const { return rondo::square(*this); }
Tensor Tensor::rsqrt() const { return rondo::rsqrt(*this); }
Tensor Tensor::sin() const { return rondo::sin(*this); }
Tensor Tensor::cos() const { return rondo::cos(*this); }
Tensor Tensor::sign() const { return rondo::sign(*this); }
Tensor Tensor::floor() const { return rondo::floor(*this); }
Tensor Tensor::ceil() const { return rondo::ceil(*this); }
Tensor Tensor::round() const { return rondo::round(*this); }
Tensor Tensor::round(std::int64_t decimals) const { return rondo::round(*this, decimals); }
Tensor Tensor::isnan() const { return rondo::isnan(*this); }
Tensor Tensor::isfinite() const { return rondo::isfinite(*this); }
Tensor Tensor::clamp(Scalar low, Scalar high) const { return rondo::clamp(*this, low, high); }
Tensor Tensor::clamp(const Tensor& low, const Tensor& high) const {
  return rondo::clamp(*this, low, high);
}
Tensor Tensor::clamp_min(Scalar low) const { return rondo::clamp_min(*this, low); }
Tensor Tensor::clamp_max(Scalar high) const { return rondo::clamp_max(*this, high); }
Tensor Tensor::softmax(std::int64_t dim) const { return rondo::softmax(*this, dim); }
Tensor Tensor::log_softmax(std::int64_t dim) const { return rondo::log_softmax(*this, dim); }
Tensor Tensor::relu() const { return rondo::relu(*this); }
Tensor Tensor::sigmoid() const { return rondo::sigmoid(*this); }
Tensor Tensor::tanh() const { return rondo::tanh(*this); }

}  // namespace rondo
