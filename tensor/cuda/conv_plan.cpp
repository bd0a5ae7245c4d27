#include "tensor/cuda/conv_plan.h"

#include <algorithm>

#include "tensor/cuda/runtime.h"

namespace rondo::cuda {
namespace {

/// The names of the attributes of one of the three operations.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};

OperationNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::backward_input:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::backward_weight:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

const Descriptor& convolution(GraphBuilder& builder, const ConvProblem& p) {
  const Conv2dParams& o = p.params;
  Descriptor& conv = builder.add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, p.dtype == f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  conv.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector{o.pad_h, o.pad_w});
  conv.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::vector{o.pad_h, o.pad_w});
  conv.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector{o.stride_h, o.stride_w});
  conv.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector{o.dilation_h, o.dilation_w});
  conv.finalize("a convolution");
  return conv;
}

/// Begins a relu or a gelu.
Descriptor& activation(GraphBuilder& builder, Activation activation, cudnnDataType_t precision) {
  if (activation == Activation::gelu_tanh)
    return builder.pointwise(CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, precision);
  return builder.pointwise(CUDNN_POINTWISE_RELU_FWD, precision, propagate_nan);
}

/// The graph of the single operation, or of a convolution, its bias and its activation.
const Descriptor& build(GraphBuilder& builder, const ConvProblem& p, const PlanTarget& target) {
  const OperationNames names = names_of(p.pass);
  const cudnnDataType_t type = cudnn_type(p.dtype, "conv2d");
  auto tensor = [&](ConvUid uid, const Dims& sizes) -> const Descriptor& {
    return builder.tensor(uid, type, sizes, strides_of(sizes, conv_format(p.dtype, p.tf32)));
  };
  const Descriptor &x = tensor(uid_x, p.x), &w = tensor(uid_w, p.w), &y = tensor(uid_y, p.y);
  const cudnnDataType_t precision = p.dtype == f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const auto between = [&](ConvUid uid) -> const Descriptor& {
    return builder.tensor(uid, precision, p.y, strides_of(p.y, conv_format(p.dtype, p.tf32)),
                          GraphBuilder::Kind::between);
  };
  const bool activates = p.params.activation != Activation::none;
  const Descriptor& biased = activates ? between(uid_before_activation) : y;
  const Descriptor& sum = p.bias ? between(uid_before_bias) : biased;
  const Descriptor& conv = convolution(builder, p);
  Descriptor& operation = builder.add(names.type);
  operation.set(names.conv, conv);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, sum);
  const double one = 1, zero = 0;
  const float one_f32 = 1, zero_f32 = 0;
  if (p.dtype == f64) {
    operation.set(names.alpha, CUDNN_TYPE_DOUBLE, 1, &one);
    operation.set(names.beta, CUDNN_TYPE_DOUBLE, 1, &zero);
  } else {
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one_f32);
    operation.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero_f32);
  }
  operation.finalize("an operation");
  builder.operation(operation);
  if (p.bias) {
    Descriptor& add = builder.pointwise(CUDNN_POINTWISE_ADD, precision);
    add.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum);
    add.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensor(uid_bias, {1, p.y[1], 1, 1}));
    builder.end(add, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, biased);
  }
  if (activates) {
    Descriptor& last = activation(builder, p.params.activation, precision);
    last.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, biased);
    builder.end(last, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }
  return builder.finish(target);
}

/// Whether a plan's workspace has room for a copy of the input or of the output.
bool copies_layouts(const CudnnPlan& plan, const ConvProblem& p) {
  return !plan.tensor_cores &&
         plan.workspace >= std::min(numel_of(p.x), numel_of(p.y)) * size_of(p.dtype);
}

}  // namespace

MemoryFormat conv_format(DType dtype, bool tf32) {
  return dtype == f64 || (dtype == f32 && !tf32) ? MemoryFormat::contiguous
                                                 : MemoryFormat::channels_last;
}

std::vector<std::int64_t> ConvProblem::key() const {
  std::vector<std::int64_t> k = {device,
                                 static_cast<std::int64_t>(pass),
                                 static_cast<std::int64_t>(dtype),
                                 tf32,
                                 deterministic,
                                 measured,
                                 params.stride_h,
                                 params.stride_w,
                                 params.pad_h,
                                 params.pad_w,
                                 params.dilation_h,
                                 params.dilation_w,
                                 params.groups,
                                 static_cast<std::int64_t>(params.activation),
                                 bias};
  for (const Dims* dims : {&x, &w, &y}) k.insert(k.end(), dims->begin(), dims->end());
  return k;
}

std::vector<CudnnPlan> conv_plans(const ConvProblem& p, const PlanTarget& target,
                                  std::size_t limit) {
  GraphBuilder builder;
  const Descriptor& graph = build(builder, p, target);
  EngineWishes wishes{.deterministic = p.deterministic,
                      .no_tensor_cores = p.dtype == f32 && !p.tf32,
                      .different_engines_first = p.measured};
  std::vector<CudnnPlan> plans = cudnn_plans(graph, target, wishes, limit);
  // For strided 1x1 convolutions cuDNN proposes engines first that do not use tensor cores, and
  // that copy everything into another layout.
  if (!plans.empty() && !wishes.no_tensor_cores && copies_layouts(plans[0], p)) {
    wishes.tensor_cores_first = true;
    plans = cudnn_plans(graph, target, wishes, limit);
  }
  if (!plans.empty() || p.bias || p.params.activation != Activation::none) return plans;
  const char* passes[] = {"conv2d", "conv2d_backward_input", "conv2d_backward_weight"};
  throw CudaError(concat("cuDNN has no engine for ", passes[static_cast<int>(p.pass)], " of ",
                         p.dtype, " input ", p.x, ", weight ", p.w, ", output ", p.y,
                         p.deterministic ? " in deterministic mode" : "", cudnn_details()));
}

}  // namespace rondo::cuda
