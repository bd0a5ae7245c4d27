#pragma once
// Backend: the kernels that a device must implement.
//
// The ops in autograd/ check their arguments, infer shapes, promote dtypes and allocate the
// outputs. Then they call exactly one of these methods. So every method may assume the following,
// and its comment does not repeat it: tensors are defined and on this device; outputs are allocated
// with the stated shape and do not overlap the inputs, unless they are exactly the same view;
// strides are arbitrary unless stated.
//
// A public method states what the kernel computes and requires, checks that in Debug builds, opens
// a KernelCall for profiles, and calls the protected virtual do_<name>. A device implements the
// virtuals, and is complete when its class compiles, without registration or a fallback table.
// tensor/kernel_arguments.h has the names of the ops and the options that the methods take.
//
// Float kernels accept f64 f32 bf16 f16; sums of bf16 and f16 are accumulated in f32.
//
// Read next: autograd/node.h, which records what was computed.

#include <cassert>
#include <memory>
#include <mutex>
#include <span>

#include "tensor/activation.h"
#include "tensor/kernel_arguments.h"
#include "tensor/kernel_call.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo {

class Backend {
 public:
  virtual ~Backend() = default;

  /// The allocator for new tensors on this device.
  virtual Allocator& allocator() = 0;

  // ---- Element-wise ----

  /// Sets every element of y to value, converted to y's dtype (Scalar::cast; for bool: value != 0).
  void fill(const Tensor& y, Scalar value) {
    const KernelCall call("fill_", {}, y);
    do_fill(y, value);
  }
  /// y = x, element by element. requires: same shape. Converts dtypes: float to integer truncates;
  /// any dtype to bool gives [x != 0].
  void copy(const Tensor& x, const Tensor& y) {
    assert(same_shape(x, y));
    const KernelCall call("copy", {}, x, y);
    do_copy(x, y);
  }
  /// requires: same shape; y of x's dtype, or boolean for logical_not and the is* tests.
  void unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params = {}) {
    assert(same_shape(x, y) && (same_dtype(x, y) || y.dtype() == boolean));
    const KernelCall call(name_of(op),
                          {.flops = flops(op, y), .in_place = x.data_ptr() == y.data_ptr()}, x, y);
    do_unary(op, x, y, params);
  }
  /// requires: a, b and y have the same shape (broadcast inputs have stride 0); a and b have the
  /// same dtype; y has that dtype, or is boolean for comparisons and logic. Exceptions: if either
  /// is f64, the other is read as f64; and for add, sub, mul and div of 16-bit floats, one operand
  /// may be f32 (a scalar that 16 bits would round).
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
              OpParams params = {}) {
    assert(same_shape(a, b, y) && (same_dtype(a, b) || a.dtype() == f32 || b.dtype() == f32 ||
                                   a.dtype() == f64 || b.dtype() == f64));
    const KernelCall call(
        name_of(op), {.flops = flops(op, y), .in_place = a.data_ptr() == y.data_ptr()}, a, b, y);
    do_binary(op, a, b, y, params);
  }
  /// y = condition ? a : b. requires: all have the same shape; condition is boolean; a, b and y
  /// have the same dtype.
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) {
    assert(same_shape(condition, a, b, y) && condition.dtype() == boolean && same_dtype(a, b, y));
    const KernelCall call("where", {}, condition, a, b, y);
    do_where(condition, a, b, y);
  }
  /// dx of a scan with prod, in f64 for floats: dx[j] = x[0] … x[j - 1] s[j], with s[j] = dy[j] +
  /// x[j + 1] s[j + 1]. Nothing is divided, so it is right where elements are 0. requires: floats
  /// of one dtype.
  void cumprod_backward(const Tensor& dy, const Tensor& x, std::int64_t dim, const Tensor& dx) {
    assert(same_shape(dy, x, dx) && same_dtype(dy, x, dx) && is_floating(x.dtype()));
    const KernelCall call("cumprod_backward", {}, dy, x, dx);
    do_cumprod_backward(dy, x, dim, dx);
  }
  /// y (n): the places, in row-major order, of the n elements of mask that are true. requires: mask
  /// is boolean and contiguous, y (i64) has an element for each that is true.
  void true_places(const Tensor& mask, const Tensor& y) {
    assert(mask.dtype() == boolean && mask.is_contiguous() && y.dtype() == i64 && y.dim() == 1);
    const KernelCall call("true_places", {}, mask, y);
    do_true_places(mask, y);
  }
  /// Rotates the points (a, b) by angles: ya = a cosine - b sine, yb = b cosine + a sine, rounded
  /// once. requires: all have the same shape; a, b, ya and yb have the same dtype; cosine and sine
  /// are f64 for f64, and f32 for all others.
  void rotate(const Tensor& a, const Tensor& b, const Tensor& cosine, const Tensor& sine,
              const Tensor& ya, const Tensor& yb) {
    assert(same_shape(a, b, cosine, sine, ya, yb) && same_dtype(a, b, ya, yb));
    const KernelCall call("rotate", {.flops = 6 * static_cast<double>(ya.numel())}, a, b, cosine,
                          sine, ya, yb);
    do_rotate(a, b, cosine, sine, ya, yb);
  }

  // ---- Reductions and scans ----

  /// Reduces every dimension in which y has size 1 and x has another size. requires: equal ranks. y
  /// is boolean for all and any, and otherwise has x's dtype (i64 for the sum and prod of
  /// integers), or a wider float, in which x is then read.
  void reduce(ReductionOp op, const Tensor& x, const Tensor& y) {
    assert(x.dim() == y.dim());
    const KernelCall call(name_of(op), {}, x, y);
    do_reduce(op, x, y);
  }
  /// The largest (smallest) value along `dim` and the index of its first occurrence. NaN counts as
  /// the largest (smallest). requires: values of x's dtype, indices i64, both with size 1 at dim.
  void extremum(bool largest, const Tensor& x, std::int64_t dim, const Tensor& values,
                const Tensor& indices) {
    assert((values.dim() == 0 || values.size(dim) == 1) && same_shape(values, indices));
    assert(same_dtype(x, values) && indices.dtype() == i64);
    const KernelCall call(largest ? "max" : "min", {}, x, values, indices);
    do_extremum(largest, x, dim, values, indices);
  }
  /// y[i] = x[0] + … + x[i] along dim, or their product, in f64 for floats; from the other end when
  /// `reverse`. For max and min y (i64) has the place of the largest (smallest) of them: of equal
  /// ones the last, and NaN counts as the largest (smallest). requires: otherwise y has x's dtype.
  void scan(ScanOp op, const Tensor& x, std::int64_t dim, bool reverse, const Tensor& y) {
    assert(same_shape(x, y));
    assert(op == ScanOp::max || op == ScanOp::min ? y.dtype() == i64 : same_dtype(x, y));
    constexpr const char* names[] = {"cumsum", "cumprod", "cummax", "cummin"};
    const KernelCall call(names[static_cast<int>(op)], {}, x, y);
    do_scan(op, x, dim, reverse, y);
  }
  /// Stable sort; NaN counts as the largest. requires: values of x's dtype, indices i64, both of
  /// x's shape.
  void sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
            const Tensor& indices) {
    assert(same_shape(x, values, indices) && same_dtype(x, values) && indices.dtype() == i64);
    const KernelCall call("sort", {}, x, values, indices);
    do_sort(x, dim, descending, values, indices);
  }
  /// The first k elements of the sorted order, in that order. requires: size k at dim in values and
  /// indices.
  void topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
            const Tensor& indices) {
    assert(same_shape(values, indices) && same_dtype(x, values) && indices.dtype() == i64);
    const KernelCall call("topk", {}, x, values, indices);
    do_topk(x, dim, largest, values, indices);
  }
  /// softmax or log_softmax along `dim`: exp(x - max) / sum, or x - max - log sum.
  void softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) {
    assert(same_shape(x, y) && same_dtype(x, y));
    const KernelCall call(log ? "log_softmax" : "softmax", {}, x, y);
    do_softmax(log, x, dim, y);
  }
  /// dx = y (dy - Σ dy y) for softmax, dx = dy - exp(y) Σ dy for log_softmax. y is the forward
  /// result.
  void softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                        const Tensor& dx) {
    assert(same_shape(dy, y, dx) && same_dtype(dy, y, dx));
    const KernelCall call(log ? "log_softmax_backward" : "softmax_backward", {}, dy, y, dx);
    do_softmax_backward(log, dy, y, dim, dx);
  }

  /// Processes each line x of logits (N, C, …) along dimension 1, in one pass, and fills the rows
  /// of `lines`. Row 0: the loss -Σ_c t_c log softmax(x)_c, or 0 if the target is ignored. Row 1:
  /// 1, or 0 if the target is ignored. Rows 2 and 3: max x and log Σ_c exp(x_c - max x), from which
  /// backward recomputes the softmax. requires: target i64 (N, 1, …); `lines` (4, N, 1, …),
  /// contiguous, f64 for f64 logits and f32 for all others.
  void cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyParams& params,
                     const Tensor& lines) {
    assert(target.dtype() == i64 && lines.size(0) == 4 && lines.is_contiguous());
    const KernelCall call("cross_entropy", {}, logits, target, lines);
    do_cross_entropy(logits, target, params, lines);
  }
  /// dlogits = (softmax(logits) - t) dloss, 0 where the target is ignored. requires: dloss has
  /// target's shape and lines' dtype.
  void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const Tensor& lines, const CrossEntropyParams& params,
                              const Tensor& dlogits) {
    assert(same_shape(dloss, target) && same_dtype(dloss, lines) && same_shape(logits, dlogits));
    const KernelCall call("cross_entropy_backward", {}, dloss, logits, target, lines, dlogits);
    do_cross_entropy_backward(dloss, logits, target, lines, params, dlogits);
  }

  // ---- Indexing ----

  // Indices are i64. An index outside 0 … size-1 throws ShapeError with the index (on CUDA: at the
  // next synchronisation).
  /// y[.., i, ..] = x[.., index[i], ..] along dim.
  void index_select(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& y) {
    assert(index.dtype() == i64 && index.dim() == 1 && y.size(dim) == index.numel());
    const KernelCall call("index_select", {}, y, index, y);
    do_index_select(x, dim, index, y);
  }
  /// y[o, i, k] = Σ_j weight[j] x[o, index[j], k], where offset[i] ≤ j < offset[i + 1]: products
  /// with a sparse matrix in compressed rows. requires: x (outer, columns, inner), y (outer, rows,
  /// inner), contiguous; f32 or f64, and weight of the same dtype; every index inside x.
  void sparse_product(const CompressedRows& matrix, const Tensor& x, const Tensor& y) {
    assert(x.dim() == 3 && x.is_contiguous() && y.is_contiguous() && y.size(1) == matrix.rows());
    assert(same_dtype(x, y) && same_dtype(x, matrix.weight) && y.numel() > 0);
    const KernelCall call("sparse_product", {}, x, matrix.index, y);
    do_sparse_product(matrix, x, y);
  }
  /// y[.., index[i], ..] = op(y[.., index[i], ..], x[.., i, ..]) along dim, in the order of i
  /// (deterministic; with `set` the last one stays). 16-bit floats are summed in f32.
  void index_scatter(ScatterOp op, const Tensor& y, std::int64_t dim, const Tensor& index,
                     const Tensor& x) {
    assert(index.dtype() == i64 && index.dim() == 1 && same_dtype(x, y));
    const KernelCall call(op == ScatterOp::add ? "index_add" : "index_scatter", {}, x, index, x);
    do_index_scatter(op, y, dim, index, x);
  }
  /// y[i][j] = x[index[i][j]][j] for dim 0, and likewise for other dims. After an error y may have
  /// been written. requires: y has index's shape.
  void gather(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& y) {
    assert(index.dtype() == i64 && same_shape(index, y) && same_dtype(x, y));
    const KernelCall call("gather", {}, y, index, y);
    do_gather(x, dim, index, y);
  }
  /// y[index[i][j]][j] = op(y[index[i][j]][j], x[i][j]) for dim 0, otherwise like index_scatter.
  /// requires: x has index's shape.
  void scatter(ScatterOp op, const Tensor& y, std::int64_t dim, const Tensor& index,
               const Tensor& x) {
    assert(index.dtype() == i64 && same_shape(index, x) && same_dtype(x, y));
    const KernelCall call(op == ScatterOp::add ? "scatter_add" : "scatter", {}, x, index, x);
    do_scatter(op, y, dim, index, x);
  }

  // ---- Random ----

  // Element i in row-major order uses the stream's numbers at index i, whatever y's strides are.
  /// Uniform in [low, high): 24 random bits for f32, bf16 and f16, 53 for f64.
  void uniform(const Tensor& y, Philox random, double low, double high) {
    assert(is_floating(y.dtype()));
    const KernelCall call("uniform", {}, y);
    do_uniform(y, random, low, high);
  }
  /// Box-Muller, computed in double and rounded once.
  void normal(const Tensor& y, Philox random, double mean, double stddev) {
    assert(is_floating(y.dtype()));
    const KernelCall call("normal", {}, y);
    do_normal(y, random, mean, stddev);
  }
  /// Integers in [low, high).
  void randint(const Tensor& y, Philox random, std::int64_t low, std::int64_t high) {
    const KernelCall call("randint", {}, y);
    do_randint(y, random, low, high);
  }

  // ---- Matrices ----

  /// y[b] = activation(a[b] · c[b] + bias) for each b. requires: a (B, M, K), c (B, K, N) and y (B,
  /// M, N) of the same dtype; sizes may be 0; bias (N) or undefined. The batch dimension may have
  /// stride 0.
  void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y,
              Activation activation = Activation::none) {
    assert(a.dim() == 3 && c.dim() == 3 && y.dim() == 3 && same_dtype(a, c, y));
    assert(a.size(1) == y.size(1) && a.size(2) == c.size(1) && c.size(2) == y.size(2));
    const KernelCall call("matmul", {.flops = 2.0 * static_cast<double>(y.numel() * a.size(2))}, a,
                          c, bias, y);
    do_matmul(a, c, bias, y, activation);
  }
  /// Whether one kernel computes a product and sums an operand, in this dtype.
  virtual bool has_matmul_and_row_sums(DType) const { return false; }
  /// y = a · c and sums[m] = Σ_k a[m, k]: with dyᵀ as a and x as c, the gradients of a linear
  /// layer's weight and bias. requires: has_matmul_and_row_sums; as matmul with B = 1; sums (M).
  void matmul_and_row_sums(const Tensor& a, const Tensor& c, const Tensor& y, const Tensor& sums) {
    assert(has_matmul_and_row_sums(y.dtype()) && same_dtype(a, c, y, sums));
    assert(a.size(0) == 1 && c.size(0) == 1 && y.size(0) == 1 && sums.numel() == y.size(1));
    assert(a.size(1) == y.size(1) && a.size(2) == c.size(1) && c.size(2) == y.size(2));
    const KernelCall call("matmul_and_row_sums",
                          {.flops = 2.0 * static_cast<double>(y.numel() * a.size(2))}, a, c, y,
                          sums);
    do_matmul_and_row_sums(a, c, y, sums);
  }

  // ---- Convolution ----

  // x (N, C, H, W), w (K, C / groups, R, S), y (N, K, P, Q). Returns the fastest layout for these
  // kernels:
  virtual MemoryFormat conv2d_format(DType dtype) const = 0;
  /// y = activation(x ⋆ w + bias) (cross-correlation, as everywhere in this field); bias (K) or
  /// undefined.
  void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
              const Conv2dParams& params) {
    assert(is_convolution(x, w, y, params));
    const KernelCall call("conv2d", {.flops = conv2d_flops(y, w)}, x, w, bias, y);
    do_conv2d(x, w, bias, y, params);
  }
  /// dx, given dy and w.
  void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                             const Conv2dParams& params) {
    assert(is_convolution(dx, w, dy, params));
    const KernelCall call("conv2d_backward_input", {.flops = conv2d_flops(dy, w)}, dy, w, dx);
    do_conv2d_backward_input(dy, w, dx, params);
  }
  /// dw, given dy and x; also dbias (K) if it is defined.
  void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                              const Tensor& dbias, const Conv2dParams& params) {
    assert(is_convolution(x, dw, dy, params));
    const KernelCall call("conv2d_backward_weight", {.flops = conv2d_flops(dy, dw)}, dy, x, dw,
                          dbias);
    do_conv2d_backward_weight(dy, x, dw, dbias, params);
  }

  // ---- Batch normalisation ----

  // x, y (N, C, ...) are f32, bf16 or f16 (for f64, autograd/ops/norm.cpp composes other ops). The
  // per-channel tensors (C) are contiguous f32. gamma and beta may be undefined (meaning 1 and 0).

  /// mean and invstd = 1 / sqrt(var + eps) over the batch; y = relu?((x - mean) invstd gamma + beta
  /// + residual). If running_mean is defined: running = (1 - momentum) running + momentum batch,
  /// with the unbiased variance of the batch.
  void batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var, double momentum,
                  double eps, const BatchNormFusion& fusion, const Tensor& y, const Tensor& mean,
                  const Tensor& invstd) {
    assert(same_shape(x, y) && same_dtype(x, y) && mean.dtype() == f32 && invstd.dtype() == f32);
    const KernelCall call("batch_norm", {}, x, fusion.residual, gamma, beta, y, fusion.mask);
    do_batch_norm(x, gamma, beta, running_mean, running_var, momentum, eps, fusion, y, mean,
                  invstd);
  }
  /// y = relu?((x - mean) / sqrt(var + eps) gamma + beta + residual).
  void batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                            const Tensor& mean, const Tensor& var, double eps,
                            const BatchNormFusion& fusion, const Tensor& y) {
    assert(same_shape(x, y) && same_dtype(x, y) && mean.dtype() == f32 && var.dtype() == f32);
    const KernelCall call("batch_norm", {}, x, fusion.residual, gamma, beta, y);
    do_batch_norm_inference(x, gamma, beta, mean, var, eps, fusion, y);
  }
  /// The size in bytes of BatchNormFusion::mask, which stores where the relu of batch_norm(x)
  /// passed values through, in less memory than y. 0: this backend has no mask for x.
  virtual std::int64_t batch_norm_mask_bytes(const Tensor& /*x*/) const { return 0; }
  /// Gradients of batch_norm with or without a final relu. y is the forward's mask (u8) or output
  /// if it is needed to know where the relu passed values through; otherwise y is undefined and x
  /// suffices. If dresidual is undefined, it is not computed (without a relu it equals dy and
  /// callers do not request it).
  void batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, bool relu,
                           const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                           const Tensor& invstd, const Tensor& dx, const Tensor& dgamma,
                           const Tensor& dbeta, const Tensor& dresidual) {
    assert(same_shape(dy, x, dx) && same_dtype(dy, x, dx));
    const KernelCall call("batch_norm_backward", {}, dy, x, y, gamma, dx, dresidual);
    do_batch_norm_backward(dy, x, y, relu, gamma, beta, mean, invstd, dx, dgamma, dbeta, dresidual);
  }

  // ---- Layer and group normalisation ----

  // If a backend has no kernel, autograd/ops composes these from other ops, and the methods throw
  // DeviceError. Tensors are contiguous unless stated, and of x's dtype (statistics of 16 bits:
  // f32), and x is not empty. gamma, beta (meaning 1 and 0) and gradients (not computed) may be
  // undefined.

  /// Whether this backend has kernels for x's dtype.
  virtual bool has_layer_norm(const Tensor& /*x*/) const { return false; }
  /// y = (x - mean) invstd gamma + beta for each row, where invstd = 1 / sqrt(var + eps); an
  /// undefined mean is 0 (RMS norm). x (rows, n), gamma and beta (n), mean and invstd (rows).
  void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                  const Tensor& y, const Tensor& mean, const Tensor& invstd) {
    assert(x.dim() == 2 && x.is_contiguous() && same_shape(x, y) && invstd.numel() == x.size(0));
    const KernelCall call("layer_norm", {}, x, gamma, beta, y);
    do_layer_norm(x, gamma, beta, eps, y, mean, invstd);
  }
  void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                           const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                           const Tensor& dgamma, const Tensor& dbeta) {
    assert(x.dim() == 2 && x.is_contiguous() && same_shape(x, dy));
    const KernelCall call("layer_norm_backward", {}, dy, x, gamma, dx);
    do_layer_norm_backward(dy, x, gamma, mean, invstd, dx, dgamma, dbeta);
  }

  virtual bool has_group_norm(const Tensor& /*x*/) const { return false; }
  /// The layout in which group_norm takes x.
  virtual MemoryFormat group_norm_format(const Tensor& /*x*/) const {
    return MemoryFormat::contiguous;
  }
  /// Like layer_norm, over the C / groups channels of each group in each image; gamma and beta are
  /// per channel. requires: x (N, C, …), y, dy and dx dense in group_norm_format(x), gamma and beta
  /// (C), mean and invstd (N, groups).
  void group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta,
                  double eps, const Tensor& y, const Tensor& mean, const Tensor& invstd) {
    assert(x.is_contiguous(group_norm_format(x)) && y.is_contiguous(group_norm_format(x)));
    assert(same_shape(x, y) && mean.numel() == x.size(0) * groups);
    const KernelCall call("group_norm", {}, x, gamma, beta, y);
    do_group_norm(x, groups, gamma, beta, eps, y, mean, invstd);
  }
  void group_norm_backward(const Tensor& dy, const Tensor& x, std::int64_t groups,
                           const Tensor& gamma, const Tensor& mean, const Tensor& invstd,
                           const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) {
    assert(x.is_contiguous(group_norm_format(x)) && dy.is_contiguous(group_norm_format(x)));
    assert(same_shape(x, dy) && mean.numel() == x.size(0) * groups);
    const KernelCall call("group_norm_backward", {}, dy, x, gamma, dx);
    do_group_norm_backward(dy, x, groups, gamma, mean, invstd, dx, dgamma, dbeta);
  }

  // ---- LSTM ----

  // If a backend has no kernel, autograd/ops/recurrent.cpp composes the steps, and the methods
  // throw DeviceError. All tensors are contiguous and of one dtype: of_x, gates and dgates (T, N, 4
  // H) with the gates in the order i, f, g, o; w (4 H, H); h and c (T + 1, N, H): the states before
  // and after step t are at t and t + 1, or with `reverse` at t + 1 and t.

  /// Whether this backend has kernels for x's dtype.
  virtual bool has_lstm(const Tensor& /*x*/) const { return false; }
  /// All steps t: gates[t] = sigmoid, or tanh for g, of of_x[t] + W h; c = f c + i g; h = o
  /// tanh(c). h and c hold the first state, and afterwards all states.
  void lstm(const Tensor& of_x, const Tensor& w, bool reverse, const Tensor& gates, const Tensor& h,
            const Tensor& c) {
    assert(of_x.dim() == 3 && same_shape(of_x, gates) && same_shape(h, c) &&
           same_dtype(of_x, w, h));
    assert(of_x.size(2) == w.size(0) && w.size(0) == 4 * w.size(1) && h.size(0) > of_x.size(0));
    const KernelCall call("lstm", {.flops = 2.0 * static_cast<double>(of_x.numel() * w.size(1))},
                          of_x, w, gates, h, c);
    do_lstm(of_x, w, reverse, gates, h, c);
  }
  /// Its gradients: dgates of the sums before the activation. dh and dc (N, H) hold the gradient of
  /// the last state, and afterwards that of the first one. dy (T, N, H), or undefined, is the
  /// gradient of each step's h.
  void lstm_backward(const Tensor& w, const Tensor& gates, const Tensor& c, bool reverse,
                     const Tensor& dy, const Tensor& dgates, const Tensor& dh, const Tensor& dc) {
    assert(same_shape(gates, dgates) && same_shape(dh, dc) && same_dtype(w, gates, dgates));
    const KernelCall call("lstm_backward",
                          {.flops = 2.0 * static_cast<double>(gates.numel() * w.size(1))}, w, gates,
                          c, dy, dgates, dh, dc);
    do_lstm_backward(w, gates, c, reverse, dy, dgates, dh, dc);
  }

  // ---- Attention ----

  // If a backend has no kernel, autograd/ops composes attention from other ops, and the methods
  // throw DeviceError. q (N, H, L, E), k (N, G, S, E), v (N, G, S, Ev), y (N, H, L, Ev); query head
  // h attends to key head h / (H / G). None of them is empty.

  /// Whether this backend has kernels for tensors like q.
  virtual bool has_attention(const Tensor& /*q*/) const { return false; }
  /// With the scores s = score_mod(scale q kᵀ) + mask: y = dropout(softmax(s)) v, and lse (N, H,
  /// L), contiguous f32, is the logarithm of the softmax's denominators, or +inf for a query whose
  /// scores are all -inf; its row of y is zero. Needs no memory for the scores.
  void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionParams& params,
                 const Tensor& y, const Tensor& lse) {
    assert(same_dtype(q, k, v, y) && q.dim() == 4 && q.size(1) % k.size(1) == 0);
    const KernelCall call("attention", {.flops = attention_flops(q, v, params, 1, 1)}, q, k, v,
                          params.mask, y);
    do_attention(q, k, v, params, y, lse);
  }
  /// The gradients, given y and lse of the forward. The scores are computed again.
  void attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionParams& params, const Tensor& y, const Tensor& lse,
                          const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    assert(same_dtype(dy, q, k, v, y) && same_shape(q, dq) && same_shape(k, dk));
    const KernelCall call("attention_backward", {.flops = attention_flops(q, v, params, 3, 2)}, dy,
                          q, k, v, params.mask, y, dq, dk, dv);
    do_attention_backward(dy, q, k, v, params, y, lse, dq, dk, dv);
  }

  // ---- Pooling ----

  /// The largest element of each window; the first of equal ones; NaN counts as the largest.
  /// indices are i64: h * W + w inside the plane.
  void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                  const Pool2dParams& params) {
    assert(same_shape(y, indices) && same_dtype(x, y) && indices.dtype() == i64);
    const KernelCall call("max_pool2d", {}, x, y, indices);
    do_max_pool2d(x, y, indices, params);
  }
  /// Adds dy to dx at `indices`, which max_pool2d computed with the same `params`; dx is 0
  /// elsewhere.
  void max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Pool2dParams& params,
                           const Tensor& dx) {
    assert(same_shape(dy, indices) && same_dtype(dy, dx));
    const KernelCall call("max_pool2d_backward", {}, dy, indices, dx);
    do_max_pool2d_backward(dy, indices, params, dx);
  }
  /// Reads x's planes at `indices` into y: the linear map whose transpose is max_pool2d_backward.
  void max_pool2d_gather(const Tensor& x, const Tensor& indices, const Tensor& y) {
    assert(same_shape(y, indices) && same_dtype(x, y));
    const KernelCall call("max_pool2d_gather", {}, y, indices, y);
    do_max_pool2d_gather(x, indices, y);
  }
  void avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dParams& params) {
    assert(same_dtype(x, y));
    const KernelCall call("avg_pool2d", {}, x, y);
    do_avg_pool2d(x, y, params);
  }
  void avg_pool2d_backward(const Tensor& dy, const Tensor& dx, const Pool2dParams& params) {
    assert(same_dtype(dy, dx));
    const KernelCall call("avg_pool2d_backward", {}, dy, dx);
    do_avg_pool2d_backward(dy, dx, params);
  }
  /// Output i averages the window floor(i H / P) … ceil((i + 1) H / P), as in PyTorch.
  void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) {
    assert(same_dtype(x, y));
    const KernelCall call("adaptive_avg_pool2d", {}, x, y);
    do_adaptive_avg_pool2d(x, y);
  }
  void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) {
    assert(same_dtype(dy, dx));
    const KernelCall call("adaptive_avg_pool2d_backward", {}, dy, dx);
    do_adaptive_avg_pool2d_backward(dy, dx);
  }

  // ---- Optimizers ----

  // Each call updates one parameter in one pass. The values that schedules change (`rates`, a dense
  // f64 tensor of two elements) and the step count (0-dim, f64) are in this device's memory. So a
  // captured graph reads new values without a new capture.
  /// (lr, momentum) = rates; g += weight_decay p; buffer = momentum buffer + (1 - dampening) g; p
  /// -= lr (nesterov ? g + momentum buffer : buffer). requires: all dense with the same layout;
  /// buffer is undefined when momentum is 0.
  void sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer, const Tensor& rates,
                const SgdParams& params) {
    assert(same_shape(p, g) && rates.numel() == 2);
    const KernelCall call("sgd_step", {}, p, p, g, buffer, buffer);
    do_sgd_step(p, g, buffer, rates, params);
  }
  /// (lr, beta1) = rates; m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g²; p -= lr m̂ /
  /// (sqrt(v̂) + eps), with bias corrections 1 - beta^step. max_v (amsgrad) may be undefined.
  void adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                 const Tensor& max_v, const Tensor& rates, const Tensor& step,
                 const AdamParams& params) {
    assert(same_shape(p, g, m, v) && rates.numel() == 2 && step.dtype() == f64);
    const KernelCall call("adam_step", {}, p, p, g, m, m, v, v, max_v, max_v);
    do_adam_step(p, g, m, v, max_v, rates, step, params);
  }
  /// Like sgd_step for many parameters at once, unless `found_inf` (0-dim, f32, on this device; may
  /// be undefined) is not 0. The default runs the steps one after the other. A GPU overrides it:
  /// there, one kernel per parameter costs more than the kernel's work.
  void sgd_steps(std::span<const SgdTensors> all, const Tensor& rates, const SgdParams& params,
                 const Tensor& found_inf);
  void adam_steps(std::span<const AdamTensors> all, const Tensor& rates, const AdamParams& params,
                  const Tensor& found_inf);
  /// Divides each g of `gradients` by scale. Sets found_inf to 1 if any of their elements was
  /// infinite or NaN; otherwise found_inf keeps its value. requires: all dense; scale and found_inf
  /// 0-dim, f32, on this device.
  void unscale(std::span<const Tensor> gradients, const Tensor& scale, const Tensor& found_inf);

 protected:
  // What a device implements: each method computes what the public method of its name promises.
  virtual void do_fill(const Tensor& y, Scalar value) = 0;
  virtual void do_copy(const Tensor& x, const Tensor& y) = 0;
  virtual void do_unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) = 0;
  virtual void do_binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                         OpParams params) = 0;
  virtual void do_cumprod_backward(const Tensor& dy, const Tensor& x, std::int64_t dim,
                                   const Tensor& dx) = 0;
  virtual void do_true_places(const Tensor& mask, const Tensor& y) = 0;
  virtual void do_where(const Tensor& condition, const Tensor& a, const Tensor& b,
                        const Tensor& y) = 0;
  virtual void do_rotate(const Tensor& a, const Tensor& b, const Tensor& cosine, const Tensor& sine,
                         const Tensor& ya, const Tensor& yb) = 0;
  virtual void do_reduce(ReductionOp op, const Tensor& x, const Tensor& y) = 0;
  virtual void do_extremum(bool largest, const Tensor& x, std::int64_t dim, const Tensor& values,
                           const Tensor& indices) = 0;
  virtual void do_scan(ScanOp op, const Tensor& x, std::int64_t dim, bool reverse,
                       const Tensor& y) = 0;
  virtual void do_sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
                       const Tensor& indices) = 0;
  virtual void do_topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
                       const Tensor& indices) = 0;
  virtual void do_softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) = 0;
  virtual void do_softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                                   const Tensor& dx) = 0;
  virtual void do_cross_entropy(const Tensor& logits, const Tensor& target,
                                const CrossEntropyParams& params, const Tensor& lines) = 0;
  virtual void do_cross_entropy_backward(const Tensor& dloss, const Tensor& logits,
                                         const Tensor& target, const Tensor& lines,
                                         const CrossEntropyParams& params,
                                         const Tensor& dlogits) = 0;
  virtual void do_index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                               const Tensor& y) = 0;
  virtual void do_sparse_product(const CompressedRows& matrix, const Tensor& x,
                                 const Tensor& y) = 0;
  virtual void do_index_scatter(ScatterOp op, const Tensor& y, std::int64_t dim,
                                const Tensor& index, const Tensor& x) = 0;
  virtual void do_gather(const Tensor& x, std::int64_t dim, const Tensor& index,
                         const Tensor& y) = 0;
  virtual void do_scatter(ScatterOp op, const Tensor& y, std::int64_t dim, const Tensor& index,
                          const Tensor& x) = 0;
  virtual void do_uniform(const Tensor& y, Philox random, double low, double high) = 0;
  virtual void do_normal(const Tensor& y, Philox random, double mean, double stddev) = 0;
  virtual void do_randint(const Tensor& y, Philox random, std::int64_t low, std::int64_t high) = 0;
  virtual void do_matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y,
                         Activation activation) = 0;
  virtual void do_matmul_and_row_sums(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {}
  virtual void do_conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                         const Conv2dParams& params) = 0;
  virtual void do_conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                        const Conv2dParams& params) = 0;
  virtual void do_conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                         const Tensor& dbias, const Conv2dParams& params) = 0;
  virtual void do_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                             const Tensor& running_mean, const Tensor& running_var, double momentum,
                             double eps, const BatchNormFusion& fusion, const Tensor& y,
                             const Tensor& mean, const Tensor& invstd) = 0;
  virtual void do_batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                       const Tensor& mean, const Tensor& var, double eps,
                                       const BatchNormFusion& fusion, const Tensor& y) = 0;
  virtual void do_batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, bool relu,
                                      const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                                      const Tensor& invstd, const Tensor& dx, const Tensor& dgamma,
                                      const Tensor& dbeta, const Tensor& dresidual) = 0;
  virtual void do_layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                             const Tensor& y, const Tensor& mean, const Tensor& invstd);
  virtual void do_layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                      const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                      const Tensor& dgamma, const Tensor& dbeta);
  virtual void do_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma,
                             const Tensor& beta, double eps, const Tensor& y, const Tensor& mean,
                             const Tensor& invstd);
  virtual void do_group_norm_backward(const Tensor& dy, const Tensor& x, std::int64_t groups,
                                      const Tensor& gamma, const Tensor& mean, const Tensor& invstd,
                                      const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta);
  virtual void do_lstm(const Tensor& of_x, const Tensor& w, bool reverse, const Tensor& gates,
                       const Tensor& h, const Tensor& c);
  virtual void do_lstm_backward(const Tensor& w, const Tensor& gates, const Tensor& c, bool reverse,
                                const Tensor& dy, const Tensor& dgates, const Tensor& dh,
                                const Tensor& dc);
  virtual void do_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionParams& params, const Tensor& y, const Tensor& lse);
  virtual void do_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const AttentionParams& params,
                                     const Tensor& y, const Tensor& lse, const Tensor& dq,
                                     const Tensor& dk, const Tensor& dv);
  virtual void do_max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                             const Pool2dParams& params) = 0;
  virtual void do_max_pool2d_backward(const Tensor& dy, const Tensor& indices,
                                      const Pool2dParams& params, const Tensor& dx) = 0;
  virtual void do_max_pool2d_gather(const Tensor& x, const Tensor& indices, const Tensor& y) = 0;
  virtual void do_avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dParams& params) = 0;
  virtual void do_avg_pool2d_backward(const Tensor& dy, const Tensor& dx,
                                      const Pool2dParams& params) = 0;
  virtual void do_adaptive_avg_pool2d(const Tensor& x, const Tensor& y) = 0;
  virtual void do_adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) = 0;
  virtual void do_sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer,
                           const Tensor& rates, const SgdParams& params) = 0;
  virtual void do_adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                            const Tensor& max_v, const Tensor& rates, const Tensor& step,
                            const AdamParams& params) = 0;
  virtual void do_sgd_steps(std::span<const SgdTensors> all, const Tensor& rates,
                            const SgdParams& params, const Tensor& found_inf);
  virtual void do_adam_steps(std::span<const AdamTensors> all, const Tensor& rates,
                             const AdamParams& params, const Tensor& found_inf);
  virtual void do_unscale(std::span<const Tensor> gradients, const Tensor& scale,
                          const Tensor& found_inf) = 0;

 private:
  // What the requirements above are written with.
  template <class... T>
  static bool same_shape(const Tensor& x, const T&... others) {
    return ((x.shape() == others.shape()) && ...);
  }
  template <class... T>
  static bool same_dtype(const Tensor& x, const T&... others) {
    return ((x.dtype() == others.dtype()) && ...);
  }
  static bool is_convolution(const Tensor& x, const Tensor& w, const Tensor& y,
                             const Conv2dParams& params) {
    return x.dim() == 4 && w.dim() == 4 && y.dim() == 4 && same_dtype(x, w, y) &&
           x.size(0) == y.size(0) && x.size(1) == w.size(1) * params.groups &&
           w.size(0) == y.size(1);
  }
  /// `of_keys` products with the features of the keys and `of_values` with those of the values.
  static double attention_flops(const Tensor& q, const Tensor& v, const AttentionParams& params,
                                int of_keys, int of_values) {
    const double pairs = static_cast<double>(q.numel() / q.size(3) * v.size(2));
    const auto features = static_cast<double>(of_keys * q.size(3) + of_values * v.size(3));
    return 2 * features * (params.is_causal ? pairs / 2 : pairs);
  }
  static double flops(UnaryOp op, const Tensor& y) {
    return op == UnaryOp::add_scalar || op == UnaryOp::mul_scalar ? static_cast<double>(y.numel())
                                                                  : 0;
  }
  static double flops(BinaryOp op, const Tensor& y) {
    const bool counts =
        op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul || op == BinaryOp::div;
    return counts ? static_cast<double>(y.numel()) : 0;
  }
};

/// The backend of a device; throws DeviceError when the device does not exist here.
Backend& backend(Device device);
inline Backend& backend(const Tensor& x) { return backend(x.device()); }

/// Replaces a device's backend and returns the previous one. Null means that the device does not
/// exist, both as result and as `replacement`. For tests that observe calls, and for devices that
/// exist only in a test. Do not call it while another thread computes.
Backend* set_backend(Device device, Backend* replacement);

/// Throws DeviceError naming `op` unless all defined tensors are on the same device.
void require_one_device(const char* op, std::initializer_list<Tensor> tensors);

/// x[0], not recorded on the tape.
inline Tensor first_row(const Tensor& x) {
  return x.as_view(Dims(x.shape().begin() + 1, x.shape().end()),
                   Dims(x.strides().begin() + 1, x.strides().end()), x.storage_offset());
}

/// x = activation(x), in place, for products that could not apply the activation themselves.
void apply_activation(Activation activation, const Tensor& x);

/// op(x) in new memory with x's shape, dtype and layout; not recorded on the tape.
Tensor apply_unary(UnaryOp op, const Tensor& x, OpParams params = {});

}  // namespace rondo
