// Tensor's methods that compute a new tensor and copy it into this one: clamp_, exp_, pow_, ….

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/record_function.h"

namespace rondo {

namespace {
/// Overwrite(x, op)(result). It exists before the result is computed, so that errors name the op.
class Overwrite {
 public:
  Overwrite(const Tensor& x, const char* op) : x_(x), op_(op), name_(op) {
    check_in_place(x, op);
    require_distinct_elements(x, op);
  }
  /// x for an op that saves its input: a copy if it is recorded, since x is about to change.
  Tensor saved_input() const {
    return GradMode::is_enabled() && x_.requires_grad() ? clone(x_) : x_;
  }
  /// Throws DTypeError if the result is a float and x is not, or an integer and x is boolean.
  const Tensor& operator()(const Tensor& result) const {
    require<DTypeError>(category_of(result.dtype()) <= category_of(x_.dtype()), op_,
                        ": a result of ", result.dtype(), " does not fit into a tensor of ",
                        x_.dtype());
    return x_.copy_(result);
  }

 private:
  const Tensor& x_;
  const char* op_;
  OpName name_;
};
}  // namespace

const Tensor& Tensor::clamp_(Scalar low, Scalar high) const {
  const Overwrite write(*this, "clamp_");
  return write(rondo::clamp(write.saved_input(), low, high));
}
const Tensor& Tensor::clamp_min_(Scalar low) const {
  const Overwrite write(*this, "clamp_min_");
  return write(rondo::clamp_min(write.saved_input(), low));
}
const Tensor& Tensor::clamp_max_(Scalar high) const {
  const Overwrite write(*this, "clamp_max_");
  return write(rondo::clamp_max(write.saved_input(), high));
}
const Tensor& Tensor::abs_() const {
  const Overwrite write(*this, "abs_");
  return write(rondo::abs(write.saved_input()));
}
const Tensor& Tensor::neg_() const { return Overwrite(*this, "neg_")(rondo::neg(*this)); }
const Tensor& Tensor::exp_() const { return Overwrite(*this, "exp_")(rondo::exp(*this)); }
const Tensor& Tensor::log_() const {
  const Overwrite write(*this, "log_");
  return write(rondo::log(write.saved_input()));
}
const Tensor& Tensor::sqrt_() const { return Overwrite(*this, "sqrt_")(rondo::sqrt(*this)); }
const Tensor& Tensor::relu_() const { return Overwrite(*this, "relu_")(rondo::relu(*this)); }
const Tensor& Tensor::sigmoid_() const {
  return Overwrite(*this, "sigmoid_")(rondo::sigmoid(*this));
}
const Tensor& Tensor::tanh_() const { return Overwrite(*this, "tanh_")(rondo::tanh(*this)); }
const Tensor& Tensor::floor_() const { return Overwrite(*this, "floor_")(rondo::floor(*this)); }
const Tensor& Tensor::round_() const { return Overwrite(*this, "round_")(rondo::round(*this)); }
const Tensor& Tensor::pow_(Scalar exponent) const {
  const Overwrite write(*this, "pow_");
  return write(rondo::pow(write.saved_input(), exponent));
}
const Tensor& Tensor::lerp_(const Tensor& end, double weight) const {
  return Overwrite(*this, "lerp_")(rondo::lerp(*this, end, weight));
}
const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, double value) const {
  return Overwrite(*this, "addcmul_")(addcmul(a, b, value));
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, double value) const {
  return Overwrite(*this, "addcdiv_")(addcdiv(a, b, value));
}

}  // namespace rondo
