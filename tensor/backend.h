#pragma once
// Backend: what a device must be able to do, kernel by kernel.
//
// The ops in autograd/ check their arguments, infer shapes and promote dtypes, allocate the outputs
// and then call exactly one of these methods. So every method may rely on this, without saying it
// again: tensors are defined and on this device; outputs are allocated, with the stated shape, and
// do not overlap the inputs unless they are exactly the same view; strides are arbitrary unless
// stated. A device is complete when its class compiles: there is no registration and no fallback
// table.
//
// Float kernels accept f64 f32 bf16 f16; sums of bf16 and f16 are accumulated in f32.

#include <memory>
#include <mutex>
#include <span>

#include "tensor/activation.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo {

/// y = op(x). `alpha`, `beta`, `gamma` are the op's parameters where it has any.
enum class UnaryOp {
  neg,
  abs,
  sign,
  exp,
  expm1,
  log,
  log1p,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  sin,
  cos,
  tan,
  sinh,
  cosh,
  asin,
  acos,
  atan,
  tanh,
  sigmoid,
  erf,
  floor,
  ceil,
  round,
  trunc,
  relu,
  gelu,
  gelu_tanh,
  silu,
  softplus,
  logical_not,
  isnan,
  isinf,
  isfinite,
  leaky_relu,     // x > 0 ? x : alpha x
  pow_scalar,     // x ^ alpha
  add_scalar,     // x + alpha
  mul_scalar,     // alpha x
  clamp,          // min(max(x, alpha), beta)
  fake_quantize,  // alpha min(max(round(x / alpha), beta), gamma)
};

/// y = op(a, b). The *_backward rows take (dy, saved) and give dx, in one pass.
enum class BinaryOp {
  add,  // a + alpha b
  sub,  // a - alpha b
  mul,
  div,
  floor_divide,
  remainder,
  pow,
  maximum,
  minimum,
  atan2,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
  logical_xor,
  relu_backward,           // y <= 0 ? 0 : dy
  leaky_relu_backward,     // dy (x > 0 ? 1 : alpha)
  sigmoid_backward,        // dy y (1 - y)
  tanh_backward,           // dy (1 - y^2)
  gelu_backward,           // dy gelu'(x)
  gelu_tanh_backward,      // dy gelu_tanh'(x)
  silu_backward,           // dy silu'(x)
  clamp_backward,          // dy [alpha <= x <= beta]
  fake_quantize_backward,  // dy [beta <= round(x / alpha) <= gamma]
};

struct OpParams {
  double alpha = 1, beta = 0, gamma = 0;
};

enum class FoldOp { sum, prod, max, min, all, any, sum_squares };

struct Conv2dParams {
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1,
               groups = 1;
  bool operator==(const Conv2dParams&) const = default;
};

struct Pool2dParams {
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h = 0, pad_w = 0;
  bool count_include_pad = true;  // average pooling only
};

/// The target distribution of a class index: t = (1 - label_smoothing) one_hot(index) +
/// label_smoothing / C, and none at all for ignore_index.
struct CrossEntropyParams {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
};

/// What follows the normalisation in the same pass over memory: y = relu?(bn(x) + residual?).
struct BatchNormFusion {
  Tensor residual;  // undefined: none
  bool relu = false;
  Tensor mask =
      {};  // of Backend::batch_norm_mask_bytes bytes: filled for the way back; or undefined
};

struct SgdParams {
  double dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
  bool first_step = false;  // the momentum buffer is written, not read
};

struct AdamParams {
  double beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: decay the weight, not the gradient
  bool maximize = false;
};

/// What one step of SGD reads and writes of one parameter (Backend::sgd_step).
struct SgdTensors {
  Tensor p, g, buffer;
};
/// The same of Adam (Backend::adam_step).
struct AdamTensors {
  Tensor p, g, m, v, max_v, step;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Where new tensors of this device get their memory.
  virtual Allocator& allocator() = 0;

  // ---- Element-wise ----

  /// Every element of y = value, converted to y's dtype (Scalar::cast; to bool it is [value != 0]).
  virtual void fill(const Tensor& y, Scalar value) = 0;
  /// y = x element by element. requires: same shape. Converts dtypes: floats to integers truncate,
  /// anything to bool is [x != 0].
  virtual void copy(const Tensor& x, const Tensor& y) = 0;
  /// requires: same shape; y of x's dtype, or boolean for logical_not and the is* tests.
  virtual void unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params = {}) = 0;
  /// requires: a, b, y of one shape (broadcast inputs have stride 0), a and b of one dtype; y of
  /// that dtype, or boolean for comparisons and logic. For add, sub, mul and div of 16-bit floats
  /// one operand may be f32: a number that 16 bits would round.
  virtual void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                      OpParams params = {}) = 0;
  /// y = condition ? a : b. requires: one shape; condition boolean; a, b, y of one dtype.
  virtual void where(const Tensor& condition, const Tensor& a, const Tensor& b,
                     const Tensor& y) = 0;

  // ---- Reductions and scans ----

  /// Reduces every dimension in which y has size 1 and x has not. requires: equal ranks; all, any
  /// give boolean, the others x's dtype (i64 for the sum and prod of integers).
  virtual void reduce(FoldOp op, const Tensor& x, const Tensor& y) = 0;
  /// Largest (smallest) values along `dim` and the index of the first; NaN wins. requires: values
  /// of x's dtype, indices i64, both with size 1 at dim.
  virtual void extremum(bool largest, const Tensor& x, std::int64_t dim, const Tensor& values,
                        const Tensor& indices) = 0;
  /// y[i] = x[0] + … + x[i] along dim; from the other end when `reverse`. requires: y of x's dtype.
  virtual void cumsum(const Tensor& x, std::int64_t dim, bool reverse, const Tensor& y) = 0;
  /// Stable; NaN counts as largest. requires: values of x's dtype, indices i64, x's shape.
  virtual void sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
                    const Tensor& indices) = 0;
  /// The first k of the sorted order, in that order. requires: size k at dim in values, indices.
  virtual void topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
                    const Tensor& indices) = 0;
  /// softmax or log_softmax along `dim`: exp(x - max) / sum, or x - max - log sum.
  virtual void softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) = 0;
  /// dx = y (dy - Σ dy y), or dy - exp(y) Σ dy, given what softmax or log_softmax returned.
  virtual void softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                                const Tensor& dx) = 0;

  /// Of each line x of logits (N, C, …) along dimension 1, in one pass: row 0 of `lines` is the
  /// loss -Σ_c t_c log softmax(x)_c, 0 where the target is ignored; row 1 is 1, or 0 where it is
  /// ignored; rows 2 and 3 are what gives softmax back: max x and log Σ_c exp(x_c - max x).
  /// requires: target i64 (N, 1, …), `lines` (4, N, 1, …) contiguous, f64 for f64 logits and f32
  /// for the others.
  virtual void cross_entropy(const Tensor& logits, const Tensor& target,
                             const CrossEntropyParams& params, const Tensor& lines) = 0;
  /// dlogits = (softmax(logits) - t) dloss, 0 where the target is ignored. requires: dloss of
  /// target's shape and lines' dtype.
  virtual void cross_entropy_backward(const Tensor& dloss, const Tensor& logits,
                                      const Tensor& target, const Tensor& lines,
                                      const CrossEntropyParams& params, const Tensor& dlogits) = 0;

  // ---- Indexing ----

  // Indices are i64; one outside 0 … size-1 throws ShapeError naming it (on CUDA: at the next
  // synchronisation).
  /// y[.., i, ..] = x[.., index[i], ..] along dim.
  virtual void index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                            const Tensor& y) = 0;
  /// y[.., index[i], ..] += x[.., i, ..] along dim, in the order of i (deterministic).
  virtual void index_add(const Tensor& y, std::int64_t dim, const Tensor& index,
                         const Tensor& x) = 0;
  /// y[i][j] = x[index[i][j]][j] for dim 0, and so on. requires: y of index's shape.
  virtual void gather(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& y) = 0;
  /// y[index[i][j]][j] += x[i][j] for dim 0. requires: index no larger than x in any dimension.
  virtual void scatter_add(const Tensor& y, std::int64_t dim, const Tensor& index,
                           const Tensor& x) = 0;

  // ---- Random ----

  // Element i in row-major order takes its numbers from the stream at index i, whatever y's
  // strides.
  /// Uniform in [low, high): 24 random bits for f32, bf16 and f16, 53 for f64.
  virtual void uniform(const Tensor& y, Philox random, double low, double high) = 0;
  /// Box-Muller, computed in double and rounded once.
  virtual void normal(const Tensor& y, Philox random, double mean, double stddev) = 0;
  /// Integers in [low, high).
  virtual void randint(const Tensor& y, Philox random, std::int64_t low, std::int64_t high) = 0;

  // ---- Matrices ----

  /// y[b] = activation(a[b] · c[b] + bias) for each b. requires: a (B, M, K), c (B, K, N), y (B, M,
  /// N) of one dtype, sizes may be 0; bias (N) or undefined. Batches may have stride 0.
  virtual void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y,
                      Activation activation = Activation::none) = 0;

  // ---- Convolution ----

  // x (N, C, H, W), w (K, C / groups, R, S), y (N, K, P, Q). The layout these kernels like best:
  virtual MemoryFormat conv2d_format(DType dtype) const = 0;
  /// y = x ⋆ w + bias (cross-correlation, as everywhere in this field); bias (K) or undefined.
  virtual void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                      const Conv2dParams& params) = 0;
  /// dx, given dy and w.
  virtual void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                     const Conv2dParams& params) = 0;
  /// dw, given dy and x; dbias (K) as well where it is defined.
  virtual void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                      const Tensor& dbias, const Conv2dParams& params) = 0;

  // ---- Batch normalisation ----

  // x, y (N, C, ...) of f32, bf16 or f16 (f64 is composed of ops in autograd/ops/norm.cpp); the
  // per-channel tensors (C) are contiguous f32. gamma and beta may be undefined (1 and 0).

  /// mean, invstd = 1 / sqrt(var + eps) over the batch; y = relu?((x - mean) invstd gamma + beta +
  /// residual). Where running_mean is defined: running = (1 - momentum) running + momentum batch,
  /// the variance there being the unbiased one.
  virtual void batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                          const Tensor& running_mean, const Tensor& running_var, double momentum,
                          double eps, const BatchNormFusion& fusion, const Tensor& y,
                          const Tensor& mean, const Tensor& invstd) = 0;
  /// y = relu?((x - mean) / sqrt(var + eps) gamma + beta + residual).
  virtual void batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                    const Tensor& mean, const Tensor& var, double eps,
                                    const BatchNormFusion& fusion, const Tensor& y) = 0;
  /// The bytes of BatchNormFusion::mask, which says where the relu of batch_norm(x) let through, in
  /// less memory than y does; 0: this backend makes none of x.
  virtual std::int64_t batch_norm_mask_bytes(const Tensor& /*x*/) const { return 0; }
  /// Gradients of batch_norm, which ended in a relu or not. y is the forward's mask (u8) or output
  /// if it is needed to know where the relu let through; else undefined: that then follows from x.
  /// dresidual undefined: not wanted (without a relu it equals dy and is never asked for).
  virtual void batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, bool relu,
                                   const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                                   const Tensor& invstd, const Tensor& dx, const Tensor& dgamma,
                                   const Tensor& dbeta, const Tensor& dresidual) = 0;

  // ---- Layer and group normalisation ----

  // Where a backend has no kernel, autograd/ops composes them of other ops, and these throw
  // DeviceError. Tensors are contiguous, of x's dtype, and x is not empty; gamma and beta may be
  // undefined (1 and 0), each gradient as well (not wanted).

  /// Whether this backend has kernels for x's dtype.
  virtual bool has_layer_norm(const Tensor& /*x*/) const { return false; }
  /// mean, invstd = 1 / sqrt(var + eps) of each row; y = (x - mean) invstd gamma + beta. requires:
  /// x (rows, n), gamma and beta (n), mean and invstd (rows).
  virtual void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                          const Tensor& y, const Tensor& mean, const Tensor& invstd);
  virtual void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                   const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                   const Tensor& dgamma, const Tensor& dbeta);

  virtual bool has_group_norm(const Tensor& /*x*/) const { return false; }
  /// The same over C / groups channels of an image each, gamma and beta for each channel. requires:
  /// x (N, C, …), gamma and beta (C), mean and invstd (N, groups).
  virtual void group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma,
                          const Tensor& beta, double eps, const Tensor& y, const Tensor& mean,
                          const Tensor& invstd);
  virtual void group_norm_backward(const Tensor& dy, const Tensor& x, std::int64_t groups,
                                   const Tensor& gamma, const Tensor& mean, const Tensor& invstd,
                                   const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta);

  // ---- Pooling ----

  /// Largest of each window, the first of equals, NaN wins; indices i64: h * W + w inside the
  /// plane.
  virtual void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                          const Pool2dParams& params) = 0;
  /// dx = dy added up at `indices`, which max_pool2d of `params` found; 0 elsewhere.
  virtual void max_pool2d_backward(const Tensor& dy, const Tensor& indices,
                                   const Pool2dParams& params, const Tensor& dx) = 0;
  /// y at `indices` of x's planes: the linear map whose transpose max_pool2d_backward is.
  virtual void max_pool2d_gather(const Tensor& x, const Tensor& indices, const Tensor& y) = 0;
  virtual void avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dParams& params) = 0;
  virtual void avg_pool2d_backward(const Tensor& dy, const Tensor& dx,
                                   const Pool2dParams& params) = 0;
  /// Window of output i: floor(i H / P) … ceil((i + 1) H / P); as in PyTorch.
  virtual void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) = 0;
  virtual void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) = 0;

  // ---- Optimizers ----

  // One pass over one parameter. What schedules change (`rates`, a dense f64 tensor of two) and the
  // step count (0-dim, f64) lie on this device, so that a captured graph reads new values without
  // being captured again.
  /// (lr, momentum) = rates; g += weight_decay p; buffer = momentum buffer + (1 - dampening) g; p
  /// -= lr (nesterov ? g + momentum buffer : buffer). requires: dense, same layout; buffer
  /// undefined when momentum is 0.
  virtual void sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer, const Tensor& rates,
                        const SgdParams& params) = 0;
  /// (lr, beta1) = rates; m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g²; p -= lr m̂ /
  /// (sqrt(v̂) + eps), with bias corrections 1 - beta^step. max_v (amsgrad) may be undefined.
  virtual void adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                         const Tensor& max_v, const Tensor& rates, const Tensor& step,
                         const AdamParams& params) = 0;
  /// The same for many parameters at once, unless `found_inf` (0-dim, f32, on this device; may be
  /// undefined) is not 0. One after the other where a device can do no better: on a GPU a kernel
  /// for each costs more than its work.
  virtual void sgd_steps(std::span<const SgdTensors> all, const Tensor& rates,
                         const SgdParams& params, const Tensor& found_inf) {
    if (found_inf.defined() && found_inf.item<float>() != 0) return;
    for (const SgdTensors& t : all) sgd_step(t.p, t.g, t.buffer, rates, params);
  }
  virtual void adam_steps(std::span<const AdamTensors> all, const Tensor& rates,
                          const AdamParams& params, const Tensor& found_inf) {
    if (found_inf.defined() && found_inf.item<float>() != 0) return;
    for (const AdamTensors& t : all) adam_step(t.p, t.g, t.m, t.v, t.max_v, rates, t.step, params);
  }
  /// Each g of `gradients` /= scale, and found_inf = 1 where one of their elements was infinite or
  /// NaN; else it stays. requires: dense; scale and found_inf 0-dim, f32, on this device.
  virtual void unscale(std::span<const Tensor> gradients, const Tensor& scale,
                       const Tensor& found_inf) = 0;
};

/// The backend of a device; throws DeviceError when the device does not exist here.
Backend& backend(Device device);
inline Backend& backend(const Tensor& x) { return backend(x.device()); }

/// Puts another backend in a device's place and returns the one that was there (null: the device
/// does not exist; null puts that state back). For tests that watch the calls, and for devices that
/// exist in a test alone; profilers have observed_backend.h. Not while another thread
/// computes.
Backend* set_backend(Device device, Backend* replacement);

/// Throws DeviceError naming `op` unless all of the tensors that are defined lie on one device.
void require_one_device(const char* op, std::initializer_list<Tensor> tensors);

/// x[0], off the tape.
inline Tensor first_row(const Tensor& x) {
  return x.as_view(Dims(x.shape().begin() + 1, x.shape().end()),
                   Dims(x.strides().begin() + 1, x.strides().end()), x.storage_offset());
}

/// x = activation(x), where the product before it could not do that on the way out.
void apply_activation(Activation activation, const Tensor& x);

/// op(x) in new memory of x's shape, dtype and layout, off the tape.
Tensor apply_unary(UnaryOp op, const Tensor& x, OpParams params = {});

}  // namespace rondo
