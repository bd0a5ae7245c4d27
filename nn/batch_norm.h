#pragma once
// BatchNorm1d, BatchNorm2d, BatchNorm3d: normalisation by the statistics of the batch in training,
// and by running averages of them in evaluation (Ioffe & Szegedy 2015). The arithmetic is in
// autograd/ops/norm.h.

#include <functional>
#include <optional>

#include "nn/module.h"

namespace rondo::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // nullopt: running statistics are plain averages
  bool affine = true;                    // learn gamma (weight) and beta (bias)
  bool track_running_stats = true;       // false: batch statistics in evaluation, too
};

/// Ops fused into the same pass over memory: y = relu?(bn(x) + residual?).
struct Fusion {
  Tensor residual = {};
  bool relu = false;
};

/// The base of the classes. weight = 1, bias = 0 (C); buffers running_mean = 0, running_var = 1
/// (C) and num_batches_tracked (i64). Under `to(bf16)` or `to(f16)` all of them stay f32, because
/// the kernels need f32.
struct BatchNorm : Module {
  std::int64_t num_features;
  BatchNormOptions options;
  Tensor weight, bias;
  Tensor running_mean, running_var, num_batches_tracked;
  /// Set by dist::convert_sync_batch_norm: in training the statistics are those of all ranks.
  std::function<Tensor(const Tensor&)> sum_over_ranks = {};

  Tensor forward(const Tensor& x) override { return run(x, {}); }
  std::string extra_repr() const override;
  using Module::operator();
  /// The fused form, one op forward and one backward: bn(x, {.residual = r, .relu = true}).
  Tensor operator()(const Tensor& x, const Fusion& fusion);
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
    v.buffer("running_mean", running_mean);
    v.buffer("running_var", running_var);
    v.buffer("num_batches_tracked", num_batches_tracked);
  }
  DType stored_dtype(DType dtype) const override { return dtype == f64 ? f64 : f32; }

 protected:
  BatchNorm(std::int64_t num_features, const BatchNormOptions& options);

 private:
  virtual void check(const Tensor& x) const = 0;
  Tensor run(const Tensor& x, const Fusion& fusion);
};

/// Replaces a batch norm after it has been folded into the convolution before it
/// (extras/quantization/prepare.h). It still applies the residual and the relu, unless the
/// convolution applies the relu.
struct FoldedBatchNorm : Module {
  bool does_relu = true;  // false: the convolution applies the relu
  /// The number of calls with only a relu, and of all other calls. Counted until convert.
  std::int64_t relus = 0, others = 0;
  bool counts = true;

  Tensor forward(const Tensor& x) override { return run(x, {}); }
  Tensor run(const Tensor& x, const Fusion& fusion);
};

/// x (N, C) or (N, C, L). Agrees with torch.nn.BatchNorm1d. Throws ShapeError for other ranks.
struct BatchNorm1d : BatchNorm {
  BatchNorm1d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options) {}

 private:
  void check(const Tensor& x) const override;
};

/// x (N, C, H, W). Agrees with torch.nn.BatchNorm2d. Throws ShapeError for other ranks.
struct BatchNorm2d : BatchNorm {
  BatchNorm2d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options) {}

 private:
  void check(const Tensor& x) const override;
};

/// x (N, C, D, H, W). Agrees with torch.nn.BatchNorm3d. Throws ShapeError for other ranks.
struct BatchNorm3d : BatchNorm {
  BatchNorm3d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options) {}

 private:
  void check(const Tensor& x) const override;
};

}  // namespace rondo::nn
