#include "tensor/cuda/conv_plan.h"

#include <algorithm>

#include "tensor/cuda/runtime.h"

namespace rondo::cuda {
namespace {

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      require<DTypeError>(dtype == f16, "conv2d: no CUDA kernel for ", dtype);
      return CUDNN_DATA_HALF;
  }
}

Descriptor describe(ConvUid uid, DType dtype, const Dims& sizes) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const Dims strides = strides_of(sizes, conv_format(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<std::int64_t>(strides.begin(), strides.end()));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  tensor.finalize("a tensor");
  return tensor;
}

/// The attributes of one of the three operations.
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

Descriptor convolution(const ConvProblem& p) {
  const Conv2dParams& o = p.params;
  Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
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

/// The graph of the one operation, and what it is built on, which must live as long.
struct OperationGraph {
  Descriptor x, w, y, conv, operation, graph;

  OperationGraph(const ConvProblem& p, const PlanTarget& target)
      : x(describe(uid_x, p.dtype, p.x)),
        w(describe(uid_w, p.dtype, p.w)),
        y(describe(uid_y, p.dtype, p.y)),
        conv(convolution(p)),
        operation(names_of(p.pass).type),
        graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    const OperationNames names = names_of(p.pass);
    operation.set(names.conv, conv);
    operation.set(names.x, x);
    operation.set(names.w, w);
    operation.set(names.y, y);
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
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    target.name_in_graph(graph);
    graph.finalize("an operation graph");
  }
};

bool uses_tensor_cores(const Descriptor& config) {
  return has_note(config, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

bool is_allowed(const ConvProblem& p, const Descriptor& config) {
  if (p.dtype == f32 && !p.tf32 && uses_tensor_cores(config)) return false;
  return !p.deterministic || !has_note(config, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
}

}  // namespace

MemoryFormat conv_format(DType dtype) {
  return dtype == f64 ? MemoryFormat::contiguous : MemoryFormat::channels_last;
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
                                 params.groups};
  for (const Dims* dims : {&x, &w, &y}) k.insert(k.end(), dims->begin(), dims->end());
  return k;
}

std::vector<ConvPlan> conv_plans(const ConvProblem& p, const PlanTarget& target,
                                 std::size_t limit) {
  const OperationGraph built(p, target);
  std::vector<ConvPlan> plans;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!plans.empty()) break;  // the fallback is for what the heuristics do not know
    std::vector<Descriptor> configs = engine_configs(built.graph, mode, target);
    // For some problems (strided 1x1 convolutions, few channels) the first that are named compute
    // without tensor cores, after copying everything into another layout.
    if (size_of(p.dtype) == 2 || (p.dtype == f32 && p.tf32))
      std::stable_partition(configs.begin(), configs.end(), uses_tensor_cores);
    for (const Descriptor& config : configs) {
      if (!is_allowed(p, config)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      target.name_in_plan(plan);
      if (!plan.try_finalize()) continue;  // this engine declines; the next may not
      const std::int64_t workspace = plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      plans.push_back({std::move(plan), workspace, uses_tensor_cores(config),
                       !has_note(config, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)});
      if (plans.size() == limit) return plans;
    }
  }
  if (!plans.empty()) return plans;
  const char* passes[] = {"conv2d", "conv2d_backward_input", "conv2d_backward_weight"};
  throw CudaError(concat("cuDNN has no engine for ", passes[static_cast<int>(p.pass)], " of ",
                         p.dtype, " input ", p.x, ", weight ", p.w, ", output ", p.y,
                         p.deterministic ? " that is deterministic" : ""));
}

}  // namespace rondo::cuda
