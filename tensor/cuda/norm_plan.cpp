#include "tensor/cuda/norm_plan.h"

#include <limits>

#include "tensor/cuda.h"

namespace rondo::cuda {
namespace {

using Kind = GraphBuilder::Kind;

class NormGraph {
 public:
  explicit NormGraph(const NormProblem& p)
      : p_(p),
        type_(cudnn_type(p.dtype, "batch_norm")),
        strides_(strides_of(p.x, MemoryFormat::channels_last)) {}

  const Descriptor& forward(const PlanTarget& target) {
    const bool is_last = !p_.residual && !p_.relu;
    const Descriptor* y = &(is_last ? image(norm_y) : between());
    Descriptor& norm = begin_norm(CUDNN_NORM_FWD_TRAINING);
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, number(norm_eps));
    if (p_.running) {
      norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, number(norm_momentum));
      norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, channels(norm_running_mean));
      norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, channels(norm_running_var));
      norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
               channels(norm_new_running_mean));
      norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
               channels(norm_new_running_var));
    }
    end(norm, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, *y);
    if (p_.residual) {
      const Descriptor& sum = p_.relu ? between() : image(norm_y);
      Descriptor& add = begin_pointwise(CUDNN_POINTWISE_ADD);
      add.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *y);
      add.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, image(norm_residual));
      end(add, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, sum);
      y = &sum;
    }
    if (p_.relu) {
      Descriptor& relu = begin_pointwise(CUDNN_POINTWISE_RELU_FWD);
      relu.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *y);
      end(relu, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, image(norm_y));
    }
    return builder_.finish(target);
  }

  const Descriptor& backward(const PlanTarget& target) {
    const Descriptor* dy = &image(norm_dy);
    if (p_.mask != ReluMaskSource::none) {
      const Descriptor* y = nullptr;
      if (p_.mask == ReluMaskSource::from_y) {
        y = &image(norm_y);
      } else {
        y = &between();
        end(begin_norm(CUDNN_NORM_FWD_INFERENCE), CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, *y);
      }
      const Descriptor& masked = p_.residual ? image(norm_dresidual) : between(type_);
      Descriptor& relu = begin_pointwise(CUDNN_POINTWISE_RELU_BWD);
      relu.set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, *dy);
      relu.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *y);
      end(relu, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, masked);
      dy = &masked;
    }
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    Descriptor& norm = builder_.add(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, image(norm_x));
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, *dy);
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, channels(norm_gamma));
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, channels(norm_mean));
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, channels(norm_invstd));
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, channels(norm_dgamma));
    norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, channels(norm_dbeta));
    end(norm, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, image(norm_dx));
    return builder_.finish(target);
  }

 private:
  const Descriptor& image(NormUid uid) {
    return builder_.tensor(uid, type_, p_.x, strides_, Kind::in_memory);
  }
  const Descriptor& between(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return builder_.tensor(norm_between + betweens_++, type, p_.x, strides_, Kind::between);
  }
  const Descriptor& channels(NormUid uid) {
    const std::int64_t c = p_.x[1];
    return builder_.tensor(uid, CUDNN_DATA_FLOAT, {1, c, 1, 1}, {c, 1, c, c}, Kind::in_memory);
  }
  const Descriptor& number(NormUid uid) {
    return builder_.tensor(uid, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Kind::by_value);
  }

  Descriptor& begin_norm(cudnnBackendNormFwdPhase_t phase) {
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    Descriptor& norm = builder_.add(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, image(norm_x));
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, channels(norm_mean));
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, channels(norm_invstd));
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, channels(norm_gamma));
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, channels(norm_beta));
    return norm;
  }
  Descriptor& begin_pointwise(cudnnPointwiseMode_t mode) {
    const bool is_sum = mode == CUDNN_POINTWISE_ADD;
    Descriptor& operation = builder_.pointwise(mode, CUDNN_DATA_FLOAT, [&](Descriptor& what) {
      if (is_sum) return;
      propagate_nan(what);
      const double none = 0, infinite = std::numeric_limits<float>::max();
      what.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 1, &none);
      what.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &infinite);
      what.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, &none);
    });
    const float one = 1;
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    if (is_sum) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    return operation;
  }
  void end(Descriptor& operation, cudnnBackendAttributeName_t name, const Descriptor& result) {
    builder_.end(operation, name, result);
  }

  const NormProblem& p_;
  cudnnDataType_t type_;
  Dims strides_;
  int betweens_ = 0;
  GraphBuilder builder_;
};

}  // namespace

std::vector<std::int64_t> NormProblem::key() const {
  std::vector<std::int64_t> k = {
      device,  static_cast<std::int64_t>(dtype), backward, deterministic, residual, relu,
      running, static_cast<std::int64_t>(mask)};
  k.insert(k.end(), x.begin(), x.end());
  return k;
}

NormProblem NormForward::problem() const {
  return {.device = x.device().index,
          .dtype = x.dtype(),
          .x = x.shape(),
          .deterministic = is_deterministic(),
          .residual = residual.defined(),
          .relu = relu,
          .running = running_mean.defined()};
}

NormProblem NormBackward::problem() const {
  return {.device = x.device().index,
          .dtype = x.dtype(),
          .x = x.shape(),
          .backward = true,
          .deterministic = is_deterministic(),
          .residual = dresidual.defined(),
          .mask = y.defined()      ? ReluMaskSource::from_y
                  : beta.defined() ? ReluMaskSource::from_x
                                   : ReluMaskSource::none};
}

namespace {

class Pointers {
 public:
  void add(NormUid uid, const Tensor& x) {
    if (x.defined()) all.emplace_back(uid, x.data_ptr());
  }
  std::vector<NamedPointer> all;
};

}  // namespace

void execute(const CudnnPlan& plan, const NormForward& norm) {
  const auto eps = static_cast<float>(norm.eps), momentum = static_cast<float>(norm.momentum);
  Pointers pointers;
  pointers.add(norm_x, norm.x);
  pointers.add(norm_gamma, norm.gamma);
  pointers.add(norm_beta, norm.beta);
  pointers.add(norm_residual, norm.residual);
  pointers.add(norm_y, norm.y);
  pointers.add(norm_mean, norm.mean);
  pointers.add(norm_invstd, norm.invstd);
  pointers.all.emplace_back(norm_eps, &eps);
  if (norm.running_mean.defined()) {
    pointers.all.emplace_back(norm_momentum, &momentum);
    pointers.add(norm_running_mean, norm.running_mean);
    pointers.add(norm_running_var, norm.running_var);
    pointers.add(norm_new_running_mean, norm.running_mean);
    pointers.add(norm_new_running_var, norm.running_var);
  }
  execute(plan, norm.x.device().index, pointers.all);
}

void execute(const CudnnPlan& plan, const NormBackward& norm) {
  Pointers pointers;
  pointers.add(norm_dy, norm.dy);
  pointers.add(norm_x, norm.x);
  pointers.add(norm_y, norm.y);
  pointers.add(norm_gamma, norm.gamma);
  pointers.add(norm_beta, norm.beta);
  pointers.add(norm_mean, norm.mean);
  pointers.add(norm_invstd, norm.invstd);
  pointers.add(norm_dx, norm.dx);
  pointers.add(norm_dgamma, norm.dgamma);
  pointers.add(norm_dbeta, norm.dbeta);
  pointers.add(norm_dresidual, norm.dresidual);
  execute(plan, norm.x.device().index, pointers.all);
}

std::vector<CudnnPlan> norm_plans(const NormProblem& p, const PlanTarget& target,
                                  std::size_t limit) {
  NormGraph graph(p);
  return cudnn_plans(p.backward ? graph.backward(target) : graph.forward(target), target,
                     {.deterministic = p.deterministic, .different_engines_first = true}, limit);
}

}  // namespace rondo::cuda
