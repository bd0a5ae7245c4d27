#include "autograd/autocast.h"

#include <memory>
#include <unordered_map>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/ops/shape.h"
#include "tensor/error.h"

namespace rondo {
namespace {

enum class OperandCast : std::uint8_t { as_they_come, lower, f32, widest };

struct Rule {
  OperandCast cpu, cuda;
  OperandCast on(Device device) const { return device.is_cpu() ? cpu : cuda; }
};

/// PyTorch's lists (aten/src/ATen/autocast_mode.h, and autocast_mode.cpp for the CPU). On the CPU,
/// ops other than products and losses keep their operands' types, because the kernels compute in
/// f32 inside. Ops that PyTorch gives the widest type of their operands (cat, stack, atan2, …)
/// promote in rondo outside of scopes, too, except scatter_add.
Rule rule(AutocastOp op) {
  using enum OperandCast;
  switch (op) {
    case AutocastOp::conv2d:
    case AutocastOp::conv_transpose2d:
    case AutocastOp::linear:
    case AutocastOp::matmul:
    case AutocastOp::bmm:
    case AutocastOp::scaled_dot_product_attention:
      return {lower, lower};
    case AutocastOp::prod:
    case AutocastOp::nll_loss:
    case AutocastOp::cross_entropy:
    case AutocastOp::mse_loss:
    case AutocastOp::l1_loss:
    case AutocastOp::smooth_l1_loss:
    case AutocastOp::bce_with_logits:
    case AutocastOp::kl_div:
    case AutocastOp::other_losses:
      return {f32, f32};
    case AutocastOp::unary_in_f32:
    case AutocastOp::pow:
    case AutocastOp::softplus:
    case AutocastOp::softmax:
    case AutocastOp::log_softmax:
    case AutocastOp::layer_norm:
    case AutocastOp::group_norm:
    case AutocastOp::sum:
    case AutocastOp::norm:
    case AutocastOp::logsumexp:
    case AutocastOp::cumsum:
    case AutocastOp::upsample_nearest2d:
      return {as_they_come, f32};
    case AutocastOp::scatter_add:
      return {as_they_come, widest};
  }
  return {as_they_come, as_they_come};
}

/// A leaf and its cast. Holding the leaf ensures that no other tensor gets its address.
struct CastLeaf {
  Tensor leaf, cast;
  std::uint64_t version;
};

struct ThreadState {
  AutocastTypes types;
  int depth = 0;
  std::unordered_map<const TensorImpl*, CastLeaf> leaves;
};

ThreadState& state() {
  thread_local ThreadState of_thread;
  return of_thread;
}

// Separate from ThreadState, because every op reads it.
thread_local bool enabled = false;

AutocastTypes exchange(const AutocastTypes& types) {
  enabled = types.any();
  return std::exchange(state().types, types);
}

/// x in `dtype`, from the scope's cache of cast leaves.
Tensor cast_leaf(const Tensor& x, DType dtype) {
  auto& leaves = state().leaves;
  auto it = leaves.find(x.impl_ptr().get());
  if (it == leaves.end() || it->second.version != x.version() || it->second.cast.dtype() != dtype) {
    const CastLeaf made{x, to(x, dtype), x.version()};
    it = leaves.insert_or_assign(x.impl_ptr().get(), made).first;
  }
  return it->second.cast;
}

}  // namespace

Autocast::Autocast(Device device, DType dtype) {
  require<DTypeError>(dtype == bf16 || dtype == f16, "autocast: ", dtype,
                      " is not a 16-bit floating-point type; use bf16",
                      device.is_cuda() ? " or f16" : "");
  require<DTypeError>(dtype != f16 || device.is_cuda(),
                      "autocast: f16 is not supported on the CPU, because oneDNN has no f16 "
                      "products; use bf16");
  AutocastTypes types = state().types;
  types[device] = dtype;
  before_ = exchange(types);
  ++state().depth;
}

Autocast::Autocast(const AutocastTypes& types) : before_(exchange(types)) { ++state().depth; }

Autocast::~Autocast() {
  exchange(before_);
  if (--state().depth == 0) state().leaves.clear();
}

AutocastTypes Autocast::types() { return state().types; }
bool Autocast::is_enabled() { return enabled; }

void Casts::begin(AutocastOp op, const Tensor& x, const Tensor& y) {
  const std::optional<DType> lower = state().types[x.device()];
  const OperandCast wanted = rule(op).on(x.device());
  if (!lower || wanted == OperandCast::as_they_come) return;
  dtype_ = wanted == OperandCast::lower    ? *lower
           : wanted == OperandCast::widest ? promote(x.dtype(), y.dtype())
                                           : f32;
  device_ = x.device();
  before_ = exchange({});
}

void Casts::end() const { exchange(before_); }

Tensor Casts::operator()(const Tensor& x) const {
  if (!x.defined() || !is_floating(x.dtype()) || x.dtype() == f64 || x.dtype() == *dtype_ ||
      x.device().type != device_.type)
    return x;
  // Without recording, the cast would have no edge to its leaf, and a later recorded op would reuse
  // it.
  return x.is_leaf() && x.requires_grad() && GradMode::is_enabled() ? cast_leaf(x, *dtype_)
                                                                    : to(x, *dtype_);
}

}  // namespace rondo
