#pragma once
// Code shared by the normalisations. Only norm.cpp, layer_norm.cpp, group_norm.cpp and
// composed_norm.cpp use it.

#include <algorithm>

#include "autograd/node.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/trace.h"
#include "tensor/creation.h"

namespace rondo::normalization {

// Code composed of ops computes in f32 if x has 16 bits (`widened`): squares of f16 overflow, and a
// mean rounded to bf16 shifts every element.

enum class Center { mean, zero };  // of layer norm, of RMS norm

/// (x - mean) / sqrt(var + eps) over dims, in recorded ops, and the statistics that it used. Around
/// zero, the mean is undefined and the variance is mean(x^2).
struct Normalized {
  Tensor value, mean, variance;
  Tensor invstd;    // undefined for several processes
  Tensor unbiased;  // variance n / (n - 1), for n values per channel
  Normalized(const Tensor& x, const Dims& dims, double eps, Center center = Center::mean)
      : mean(center == Center::mean ? rondo::mean(x, dims, true) : Tensor()) {
    const Tensor centered = mean.defined() ? x - mean : x;
    variance = rondo::mean(square(centered), dims, true);
    invstd = rsqrt(variance + eps);
    value = centered * invstd;
    const auto n = static_cast<double>(x.numel()) / static_cast<double>(invstd.numel());
    unbiased = variance * (n / (n - 1));
  }
  /// Over several processes, which may have different numbers of values. It needs two sums, because
  /// a variance computed as the mean of squares minus the squared mean would lose precision.
  Normalized(const Tensor& x, const Dims& dims, double eps,
             const std::function<Tensor(const Tensor&)>& sum_over_ranks) {
    // An f32 mean of equal numbers may differ from them, by more than their deviation. So the mean
    // of what is left is added to it, in f64.
    const Tensor about = rondo::mean(x.detach(), dims, true);
    const Tensor own = to(rondo::mean(x - about, dims, true), f64) + to(about, f64);
    const std::int64_t channels = own.numel(), count = x.numel() / channels;
    // A rank without values has sums of 0, which are recorded: its backward must meet the others'.
    const Tensor sums = count > 0 ? own * static_cast<double>(count) : to(sum(x, dims, true), f64);
    const Tensor own_n = full({1}, count, {.dtype = f64, .device = x.device()});
    const Tensor totals = sum_over_ranks(cat({reshape(sums, {channels}), own_n}, 0));
    const Tensor wide_n = narrow(totals, 0, channels, 1).detach(), n = to(wide_n, x.dtype());
    mean = to(reshape(narrow(totals, 0, 0, channels) / wide_n, sums.shape()), x.dtype());
    Tensor centered = x - mean;
    variance = sum_over_ranks(sum(square(centered), dims, true)) / n;
    // The derivative of rsqrt, invstd^3, would underflow for deviations of 1e13.
    value = centered / sqrt(variance + eps);
    unbiased = variance * (n / maximum(n - 1, ones_like(n)));
  }
};

/// Whether f32 cannot carry numbers with one of these 1 / deviations: their squares overflow, or
/// the gradient's factors invstd^3 underflow. NaN may come from sums that overflow. Such a tensor
/// is normalised in f64. On a GPU the answer is always no, because the host would wait for it; and
/// under TraceMode, because a trace must not depend on the elements.
inline bool beyond_f32(const Tensor& invstd) {
  if (TraceMode::is_enabled() || !invstd.device().is_cpu() || invstd.dtype() != f32) return false;
  const auto* s = invstd.data_ptr<float>();
  return std::any_of(s, s + invstd.numel(), [](float v) { return !(v >= 1e-10F && v <= 1e10F); });
}

/// All dimensions except the channel dimension.
inline Dims batch_dims(const Tensor& x) {
  Dims dims;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

/// v (C) as (1, C, 1, …), to broadcast over x (N, C, ...).
inline Tensor per_channel(const Tensor& v, const Tensor& x) {
  Dims sizes = Dims::filled(x.dim(), 1);
  sizes[1] = v.numel();
  return reshape(v, sizes);
}

inline Tensor affine(const Tensor& normalized, const Tensor& gamma, const Tensor& beta) {
  Tensor y = normalized;
  if (gamma.defined()) y = y * to(gamma, y.dtype());
  if (beta.defined()) y = y + to(beta, y.dtype());
  return y;
}

/// affine for gamma and beta (C), each of which may be undefined.
inline Tensor affine_per_channel(const Tensor& normalized, const Tensor& gamma,
                                 const Tensor& beta) {
  return affine(normalized, gamma.defined() ? per_channel(gamma, normalized) : gamma,
                beta.defined() ? per_channel(beta, normalized) : beta);
}

/// Memory for the gradient of gamma or beta (C); undefined if that gradient is not wanted.
inline Tensor factor_gradient(bool wanted, const Tensor& x) {
  return wanted ? Tensor::empty({x.size(1)}, {.dtype = x.dtype(), .device = x.device()}) : Tensor();
}

inline void check_channels(const char* op, const Tensor& x, const Tensor& v, const char* what) {
  require<ShapeError>(!v.defined() || (v.dim() == 1 && v.size(0) == x.size(1)), op, ": ", what,
                      " of shape ", v.defined() ? v.shape() : Dims{}, " for an input ", x.shape());
}

/// Under TraceMode: a normalisation as one node, under the name that readers of graphs know.
struct TracedNorm final : Node {
  const char* op;
  double eps;
  std::int64_t dims;  // how many of the last dimensions are normalised; 0: batch_norm with running
                      // statistics
  TracedNorm(const char* op, double eps, std::int64_t dims = 0) : op(op), eps(eps), dims(dims) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors&) override {
    throw AutogradError(
        concat("backward of ", op, ": the node was recorded under TraceMode and has no backward"));
  }
  void attributes(AttributeVisitor& v) override {
    v.real("eps", eps);
    if (dims > 0) v.integer("dims", dims);
  }
};

}  // namespace rondo::normalization
