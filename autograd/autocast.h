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
// A 16-bit float takes half the memory of f32 and is multiplied several times as fast, but it has
// only 8 significant bits (bf16) or a largest value of 65,504 (f16). Matrix products tolerate that,
// because the kernel accumulates their sums in f32. Sums of many terms, exponentials and small
// weight updates do not. So weights stay f32, and each op gets its operands in the type that suits
// it: matrix products and convolutions get `lower`, the scope's 16-bit type; ops that would lose
// precision get f32; all other ops take their operands as they are. The cast is an op on the tape,
// so the gradient of an f32 weight is f32. backward runs each op in the type of its forward,
// whether it is called inside or outside the scope.
//
// In f16, gradients below 6e-8 become 0; use optim/grad_scaler.h. bf16 has the range of f32 and
// needs no scaler.

#include <array>
#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace rondo {

/// The dtype to which a thread's ops are cast, for each type of device; nullopt: no cast.
struct AutocastTypes {
  std::array<std::optional<DType>, 2> of_device = {};  // by Device::Type

  std::optional<DType>& operator[](Device device) {
    return of_device[static_cast<std::size_t>(device.type)];
  }
  bool any() const { return of_device[0].has_value() || of_device[1].has_value(); }
};

/// A scope in which this thread's ops are cast. Scopes nest. A leaf that requires a gradient is
/// cast once per scope, at its first use, and again after it has been written. The casts are kept
/// until the outermost scope ends. Autocast does not notice when a CUDA graph writes weights: end
/// the scope before you replay the graph.
class Autocast {
 public:
  /// Ops on devices of this type run in bf16 or, on a GPU only, in f16. Throws DTypeError for other
  /// types, and for f16 on the CPU.
  Autocast(Device device, DType dtype);
  /// Opens the scopes of another thread on this thread.
  explicit Autocast(const AutocastTypes& types);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// The types in effect on this thread.
  static AutocastTypes types();
  static bool is_enabled();

 private:
  AutocastTypes before_;
};

/// `NoAutocast off;`: nothing is cast in this scope.
struct NoAutocast : Autocast {
  NoAutocast() : Autocast(AutocastTypes{}) {}
};

/// An Autocast scope if a type is given; else nothing.
struct AutocastIf {
  AutocastIf(Device device, std::optional<DType> dtype) {
    if (dtype) scope.emplace(device, *dtype);
  }
  std::optional<Autocast> scope;
};

/// The ops that autocast may cast. One table in autocast.cpp says which type each op gets.
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
  other_losses,  // those of composed_loss.cpp
  unary_in_f32,  // those that autograd/ops/unary.cpp marks so
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

/// An op begins with this line:
///
///   if (const Casts cast{AutocastOp::linear, x}) return linear(cast(x), cast(weight), cast(bias));
///
/// True if an open scope casts this op's operands on x's device. While the object lives, autocast
/// is off, so the op calls itself, and the ops that it is composed of, as if it were outside all
/// scopes.
class Casts {
 public:
  Casts(AutocastOp op, const Tensor& x) : Casts(op, x, x) {}
  /// For an op whose operands get the wider type of the two.
  Casts(AutocastOp op, const Tensor& x, const Tensor& y) {
    if (Autocast::is_enabled()) begin(op, x, y);
  }
  ~Casts() {
    if (dtype_) end();
  }
  Casts(const Casts&) = delete;
  Casts& operator=(const Casts&) = delete;

  explicit operator bool() const { return dtype_.has_value(); }
  /// x in the op's type. Integers, f64, tensors on other devices and undefined tensors are returned
  /// unchanged.
  Tensor operator()(const Tensor& x) const;

 private:
  void begin(AutocastOp op, const Tensor& x, const Tensor& y);
  void end() const;

  std::optional<DType> dtype_;
  Device device_;
  AutocastTypes before_;
};

}  // namespace rondo
