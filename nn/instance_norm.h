#pragma once
// InstanceNorm1d, InstanceNorm2d, InstanceNorm3d: normalisation of each channel of each image
// (Ulyanov et al. 2016). The arithmetic is in autograd/ops/norm.h.

#include "nn/module.h"

namespace rondo::nn {

struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = false;               // learn gamma (weight) and beta (bias)
  bool track_running_stats = false;  // true: running statistics in evaluation
};

/// The base of the classes. weight = 1, bias = 0 (C), if affine; buffers running_mean = 0,
/// running_var = 1 (C) and num_batches_tracked (i64), if tracked. All stay f32 under `to(bf16)` and
/// `to(f16)`, as in BatchNorm. Agrees with torch.nn.InstanceNorm1d, …, except that an input with
/// another number of channels always throws.
struct InstanceNorm : Module {
  std::int64_t num_features;
  InstanceNormOptions options;
  Tensor weight, bias;
  Tensor running_mean, running_var, num_batches_tracked;

  /// x (N, C, ...) or (C, ...). Throws ShapeError for other shapes.
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
    v.buffer("running_mean", running_mean);
    v.buffer("running_var", running_var);
    v.buffer("num_batches_tracked", num_batches_tracked);
  }
  DType stored_dtype(DType dtype) const override { return dtype == f64 ? f64 : f32; }

 protected:
  InstanceNorm(std::int64_t image_dims, std::int64_t num_features,
               const InstanceNormOptions& options);

 private:
  std::int64_t image_dims_;  // without N and C
};

struct InstanceNorm1d : InstanceNorm {
  InstanceNorm1d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(1, num_features, options) {}
};
struct InstanceNorm2d : InstanceNorm {
  InstanceNorm2d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(2, num_features, options) {}
};
struct InstanceNorm3d : InstanceNorm {
  InstanceNorm3d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(3, num_features, options) {}
};

}  // namespace rondo::nn
