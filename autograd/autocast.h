#pragma once
// Autocast: mixed precision. As torch.autocast.
//
//   Tensor loss;
//   {
//     const Autocast amp(Device::cpu(), bf16);
//     loss = cross_entropy(model(x), target);
//   }
//   loss.backward();
//
// Note [Mixed precision]
// A 16-bit float takes half the memory of f32 and is multiplied several times as fast, but it has 8
// significant bits (bf16) or a largest value of 65,504 (f16). Products can live with that, since
// their sums are kept in f32 inside the kernel; sums of many terms, exponentials and the small
// steps by which weights change cannot. So weights stay f32, and each op is given its operands in
// the type that suits it: `lower`, the scope's 16-bit type, for matrix products and convolutions;
// f32 for what loses digits; for all others whatever comes. The cast is an op on the tape, so the
// gradient of an f32 weight is f32. backward runs each op in the type of its forward, whether it is
// called in the scope or outside.
//
// In f16 gradients below 6e-8 become 0; optim/grad_scaler.h is the remedy. bf16 has f32's range and
// needs none.

#include <array>
#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace rondo {

/// What a thread's ops are cast to, for each type of device; nothing: they are not.
struct AutocastTypes {
  std::array<std::optional<DType>, 2> of_device = {};  // by Device::Type

  std::optional<DType>& operator[](Device device) {
    return of_device[static_cast<std::size_t>(device.type)];
  }
  bool any() const { return of_device[0].has_value() || of_device[1].has_value(); }
};

/// A scope in which this thread's ops are cast. Scopes nest. A leaf that requires a gradient is
/// cast once in a scope, at its first use (and again when it has been written since); what was cast
/// is kept until the outermost scope ends. A CUDA graph that writes weights is not seen: end the
/// scope before it is replayed.
class Autocast {
 public:
  /// Ops on devices of this type run in bf16, or on a GPU in f16. Throws DTypeError for other
  /// types, and for f16 on the CPU.
  Autocast(Device device, DType dtype);
  /// The scopes of another thread, on this one.
  explicit Autocast(const AutocastTypes& types);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// What holds on this thread now.
  static AutocastTypes types();
  static bool is_enabled();

 private:
  AutocastTypes before_;
};

/// `NoAutocast off;`: nothing is cast in this scope.
struct NoAutocast : Autocast {
  NoAutocast() : Autocast(AutocastTypes{}) {}
};

/// A scope only where a type is given.
struct AutocastIf {
  AutocastIf(Device device, std::optional<DType> dtype) {
    if (dtype) scope.emplace(device, *dtype);
  }
  std::optional<Autocast> scope;
};

/// The ops that autocast has a say in. Which type each gets is one table in autocast.cpp.
enum class AutocastOp : std::uint8_t {
  conv2d,
  conv_transpose2d,
  linear,
  matmul,
  bmm,
  scaled_dot_product_attention,
  prod,
  nll_loss,
  cross_entropy,
  mse_loss,
  l1_loss,
  smooth_l1_loss,
  bce_with_logits,
  kl_div,
  acos,
  asin,
  cosh,
  exp,
  expm1,
  log,
  log1p,
  reciprocal,
  rsqrt,
  sinh,
  tan,
  pow,
  softplus,
  softmax,
  log_softmax,
  layer_norm,
  group_norm,
  sum,
  norm,
  logsumexp,
  cumsum,
  upsample_nearest2d,
  scatter_add,
};

/// How an op asks, before anything else:
///
///   if (const Casts cast{AutocastOp::linear, x}) return linear(cast(x), cast(weight), cast(bias));
///
/// True where a scope is open that wants other operands for this op on x's device; while it lives
/// nothing else is cast, so the op calls itself and what it is made of as outside of all scopes.
class Casts {
 public:
  Casts(AutocastOp op, const Tensor& x) : Casts(op, x, x) {}
  /// For an op that wants the wider type of two.
  Casts(AutocastOp op, const Tensor& x, const Tensor& y) {
    if (Autocast::is_enabled()) begin(op, x, y);
  }
  ~Casts() {
    if (dtype_) end();
  }
  Casts(const Casts&) = delete;
  Casts& operator=(const Casts&) = delete;

  explicit operator bool() const { return dtype_.has_value(); }
  /// x in the op's type; integers, f64, tensors of other devices and undefined ones as they are.
  Tensor operator()(const Tensor& x) const;

 private:
  void begin(AutocastOp op, const Tensor& x, const Tensor& y);
  void end() const;

  std::optional<DType> dtype_;
  Device device_;
  AutocastTypes before_;
};

}  // namespace rondo
