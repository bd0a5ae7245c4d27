// The distances of all pairs of points (composed.h).

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/error.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// sqrt(|a|^2 + |b|^2 - 2 a b): one product instead of all differences. Without a gradient.
Tensor distances_by_product(const Tensor& a, const Tensor& b) {
  const NoGradGuard no_grad;
  const NoAutocast no_autocast;
  const Tensor squares = sum(square(a), {-1}, true) + transpose(sum(square(b), {-1}, true), -2, -1);
  return sqrt(clamp_min(add(squares, matmul(a, transpose(b, -2, -1)), -2), 0.0));
}

/// With g = dy / y, or 0 where y is 0: da_i = sum_j g_ij (a_i - b_j), db_j = sum_i g_ij (b_j -
/// a_i).
struct CdistBackward final : Node {
  SavedTensor a, b, y;
  CdistBackward(const Tensor& a, const Tensor& b, const Tensor& y)
      : a(a), b(b), y(y, SavedTensor::output) {}
  const char* name() const override { return "cdist"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor a = this->a.get(*this), b = this->b.get(*this), y = this->y.get(*this);
    const Tensor none = eq(y, 0.0);
    const Tensor g = masked_fill(dy[0] / masked_fill(y, none, 1.0), none, 0.0);
    const Tensor turned = transpose(g, -2, -1);
    const auto gradient = [](const Tensor& g, const Tensor& mine, const Tensor& other) {
      return sum_to(sum(g, {-1}, true) * mine - matmul(g, other), mine.shape());
    };
    return {wants(0) ? gradient(g, a, b) : Tensor(), wants(1) ? gradient(turned, b, a) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
    y.reset();
  }
};

}  // namespace

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  const OpRange op("cdist");
  require<ShapeError>(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1),
                      "cdist: expected points (…, P, M) and (…, R, M), got ", a.shape(), " and ",
                      b.shape());
  require(p > 0, "cdist: p is ", p, "; expected a positive number");
  // PyTorch's rule: for many points the product is faster, for few the differences are more exact.
  const bool many = a.size(-2) > 25 || b.size(-2) > 25;
  if (p == 2 && many && a.dtype() == b.dtype() && (a.dtype() == f32 || a.dtype() == f64) &&
      !TraceMode::is_enabled()) {
    const Tensor y = distances_by_product(a, b);
    return record<CdistBackward>({a, b}, y, a, b, y);
  }
  return vector_norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, {-1});
}

}  // namespace rondo
