#include "autograd/ops/pad.h"

#include <algorithm>
#include <string>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Pads one dimension with ops that exporters know. Without positive padding the result is a view.
Tensor pad_by_cat(const Tensor& x, std::int64_t dim, std::int64_t before, std::int64_t after,
                  Scalar value) {
  const Tensor inner =
      narrow(x, dim, std::max<std::int64_t>(-before, 0),
             x.size(dim) + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0));
  Tensors parts;
  const auto add_filled = [&](std::int64_t length) {
    if (length <= 0) return;
    Dims sizes = inner.shape();
    sizes[dim] = length;
    TensorOptions options = x.options();
    options.format = x.suggested_format();  // cat takes its first part's
    parts.push_back(full(sizes, value, options));
  };
  add_filled(before);
  parts.push_back(inner);
  add_filled(after);
  return parts.size() == 1 ? inner : cat(parts, dim);
}

/// Calls f(dimension, before, after) for each dimension that changes.
template <class F>
void for_each_padded(const Tensor& x, const Dims& padding, F f) {
  for (std::int64_t k = 0; 2 * k < padding.size(); ++k)
    if (padding[2 * k] != 0 || padding[2 * k + 1] != 0)
      f(x.dim() - 1 - k, padding[2 * k], padding[2 * k + 1]);
}

/// dx is the middle of dy: what negative padding leaves.
struct PadBackward final : Node {
  Dims padding;
  double value;
  PadBackward(const Dims& padding, Scalar value) : padding(padding), value(value.to<double>()) {}
  const char* name() const override { return "pad"; }
  Tensors backward(const Tensors& dy) override {
    Dims removed = padding;
    for (std::int64_t& amount : removed) amount = -amount;
    return {pad(dy[0], removed)};
  }
  void attributes(AttributeVisitor& v) override {
    v.integers("padding", padding);
    v.real("value", value);
  }
};

/// Fills a tensor, and copies what is left of x into its middle.
Tensor pad_with_constant(const Tensor& x, const Dims& padding, Scalar value) {
  const NoGradGuard no_grad;
  Tensor inner = x;
  Dims sizes = x.shape();
  constexpr std::int64_t none = 0;
  for_each_padded(x, padding, [&](std::int64_t dim, std::int64_t before, std::int64_t after) {
    const std::int64_t left = x.size(dim) + std::min(before, none) + std::min(after, none);
    inner = narrow(inner, dim, std::max(-before, none), left);
    sizes[dim] = x.size(dim) + before + after;
  });
  TensorOptions options = x.options();
  options.format = x.suggested_format();
  if (sizes == inner.shape()) return empty(sizes, options).copy_(inner);
  const Tensor y = full(sizes, value, options);
  Tensor middle = y;
  for_each_padded(x, padding, [&](std::int64_t dim, std::int64_t before, std::int64_t) {
    middle = narrow(middle, dim, std::max(before, none), inner.size(dim));
  });
  middle.copy_(inner);
  return y;
}

/// Picks each element of the result by its index in x. circular repeats what a negative number has
/// left, the other modes what was there before.
Tensor pad_with_elements(const Tensor& x, std::int64_t dim, std::int64_t before, std::int64_t after,
                         PadMode mode) {
  if (mode == PadMode::circular && std::min(before, after) < 0) {
    const std::int64_t none = 0;
    const Tensor rest = pad_by_cat(x, dim, std::min(before, none), std::min(after, none), 0);
    return pad_with_elements(rest, dim, std::max(before, none), std::max(after, none), mode);
  }
  const std::int64_t n = x.size(dim), most = std::max(before, after);
  require<ShapeError>(mode != PadMode::reflect || most < n, "pad: reflect adds ", most,
                      " elements to dimension ", dim, " of ", x.shape(), ", which has fewer than ",
                      most + 1);
  require<ShapeError>(mode != PadMode::circular || most <= n, "pad: circular adds ", most,
                      " elements to dimension ", dim, " of ", x.shape(), ", which has fewer");
  const Tensor i = arange(-before, n + after, 1, {.dtype = i64, .device = x.device()});
  const Tensor index = mode == PadMode::reflect     ? n - 1 - abs(n - 1 - abs(i))
                       : mode == PadMode::replicate ? clamp(i, 0, n - 1)
                                                    : remainder(i, n);
  return index_select(x, dim, index);
}

}  // namespace

Tensor pad(const Tensor& x, const Dims& padding, PadMode mode, Scalar value) {
  const OpRange op("pad");
  const std::int64_t padded = padding.size() / 2;
  require<ShapeError>(padding.size() % 2 == 0 && padded <= x.dim(), "pad: padding ", padding,
                      " is not two numbers for each of the last dimensions of ", x.shape());
  const bool is_constant = mode == PadMode::constant;
  require<ShapeError>(
      is_constant || (padded >= 1 && padded <= 3 && x.dim() > padded && x.dim() <= padded + 2),
      "pad: reflect, replicate and circular pad the last 1, 2 or 3 dimensions of "
      "an input with 1 or 2 more; the input is ",
      x.shape(), ", the padding ", padding);
  require(is_constant || value.to<double>() == 0,
          "pad: a value can be given in the mode constant only");
  for (std::int64_t k = 0; k < padded; ++k) {
    const std::int64_t dim = x.dim() - 1 - k, before = padding[2 * k], after = padding[2 * k + 1];
    const std::int64_t size = (CheckedSize(x.size(dim), "pad") + before + after).value();
    require<ShapeError>(size >= (is_constant ? 0 : 1) && before >= -x.size(dim) &&
                            after >= -x.size(dim) && (is_constant || x.size(dim) > 0),
                        "pad: nothing is left of dimension ", dim, " of ", x.shape(),
                        " with padding ", padding);
  }
  if (is_constant && !TraceMode::is_enabled())
    return record<PadBackward>({x}, pad_with_constant(x, padding, value), padding, value);
  Tensor y = x;
  for_each_padded(x, padding, [&](std::int64_t dim, std::int64_t before, std::int64_t after) {
    y = is_constant ? pad_by_cat(y, dim, before, after, value)
                    : pad_with_elements(y, dim, before, after, mode);
  });
  return y.storage() == x.storage() ? clone(y) : y;
}

Tensor pad(const Tensor& x, const Dims& padding, std::string_view mode, Scalar value) {
  constexpr std::pair<std::string_view, PadMode> modes[] = {{"constant", PadMode::constant},
                                                            {"reflect", PadMode::reflect},
                                                            {"replicate", PadMode::replicate},
                                                            {"circular", PadMode::circular}};
  for (const auto& [name, value_of_name] : modes)
    if (name == mode) return pad(x, padding, value_of_name, value);
  throw Error(concat("pad: mode = \"", std::string(mode),
                     "\"; there are constant, reflect, replicate and circular"));
}

}  // namespace rondo
