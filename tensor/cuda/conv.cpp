// Convolution's three primitives through cuDNN, on channels_last tensors (f64: contiguous), where
// the tensor cores want them.
//
// A plan is made once for each problem and device: cuDNN's heuristics name engines, the first of
// them that accepts the problem is taken. Weights are dense (K, C, R, S) masters; they are copied
// to channels_last for the kernel, and their gradient back, which costs a pass over the weights
// alone.

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "tensor/cuda/cublaslt.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/cudnn.h"
#include "tensor/cuda/simulation.h"
#include "tensor/cuda/stream.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

enum class Pass { forward, backward_input, backward_weight };

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

MemoryFormat format_of(DType dtype) {
  return dtype == f64 ? MemoryFormat::contiguous : MemoryFormat::channels_last;
}

/// What a plan is made for. Shapes, since layouts follow from the dtype.
struct Problem {
  int device;
  Pass pass;
  DType dtype;
  bool tf32;
  Dims x, w, y;
  Conv2dParams params;

  std::vector<std::int64_t> key() const {
    std::vector<std::int64_t> k = {device,
                                   static_cast<std::int64_t>(pass),
                                   static_cast<std::int64_t>(dtype),
                                   tf32,
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
};

/// The names under which a plan knows its tensors.
enum Uid : std::int64_t { uid_x = 1, uid_w = 2, uid_y = 3 };

Descriptor describe(Uid uid, DType dtype, const Dims& sizes) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const Dims strides = strides_of(sizes, format_of(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<std::int64_t>(strides.begin(), strides.end()));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  tensor.finalize("a tensor");
  return tensor;
}

struct Plan {
  Descriptor plan{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::int64_t workspace = 0;
};

/// The attributes of one of the three operations.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};

OperationNames names_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case Pass::backward_input:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Pass::backward_weight:
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

// Releases of cuDNN before 9.8 want to know the handle here; later ones, which call this
// deprecated, still take it.
constexpr auto graph_handle = static_cast<cudnnBackendAttributeName_t>(800);
constexpr auto plan_handle = static_cast<cudnnBackendAttributeName_t>(400);

Descriptor convolution(const Problem& p) {
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

Plan make_plan(const Problem& p) {
  const Descriptor x = describe(uid_x, p.dtype, p.x), w = describe(uid_w, p.dtype, p.w),
                   y = describe(uid_y, p.dtype, p.y), conv = convolution(p);
  const OperationNames names = names_of(p.pass);
  Descriptor operation(names.type);
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
  cudnnHandle_t handle = cudnn_handle(p.device);
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.set(graph_handle, handle);
  graph.finalize("an operation graph");
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Descriptor& config : engine_configs(graph, mode)) {
      if (p.dtype == f32 && !p.tf32 && rounds_factors(config)) continue;
      Plan made;
      made.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      made.plan.set(plan_handle, handle);
      if (!made.plan.try_finalize()) continue;  // this engine declines; the next may not
      made.workspace = made.plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      return made;
    }
  }
  const char* passes[] = {"conv2d", "conv2d_backward_input", "conv2d_backward_weight"};
  throw CudaError(concat("cuDNN has no engine for ", passes[static_cast<int>(p.pass)], " of ",
                         p.dtype, " input ", p.x, ", weight ", p.w, ", output ", p.y));
}

/// Plans are kept as long as the process: a training step has some dozens.
std::shared_ptr<const Plan> plan_for(const Problem& p) {
  static std::mutex mutex;
  static auto* plans =
      new std::map<std::pair<const Cudnn*, std::vector<std::int64_t>>, std::shared_ptr<Plan>>;
  std::lock_guard lock(mutex);
  std::shared_ptr<Plan>& plan = (*plans)[{&cudnn(), p.key()}];
  if (plan == nullptr) plan = std::make_shared<Plan>(make_plan(p));
  return plan;
}

void run(const Problem& p, const Tensor& x, const Tensor& w, const Tensor& y) {
  std::optional<DeviceGuard> guard;
  if (!is_simulated()) guard.emplace(p.device);
  const std::shared_ptr<const Plan> plan = plan_for(p);
  const Tensor workspace = Tensor::empty({plan->workspace}, {.dtype = u8, .device = x.device()});
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<std::int64_t>{uid_x, uid_w, uid_y});
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
           std::vector<void*>{x.data_ptr(), w.data_ptr(), y.data_ptr()});
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::vector<void*>{workspace.data_ptr()});
  pack.finalize("a variant pack");
  check_cudnn(cudnn().execute(cudnn_handle(p.device), plan->plan.get(), pack.get()),
              "a convolution");
}

/// Whether a plan, which counts on dense channels_last and on 16 bytes, can use x where it lies.
/// Sizes of 1 let strides be what they like; cuDNN was told the regular ones, which fit all the
/// same, since nothing is ever taken along such a dimension.
bool is_usable(const Tensor& x) {
  return x.is_contiguous(format_of(x.dtype())) &&
         reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
}
Tensor prepared(const Tensor& x) { return is_usable(x) ? x : dense_copy(x, format_of(x.dtype())); }
Tensor prepared_output(const Tensor& y) {
  return is_usable(y) ? y : empty_in(y, format_of(y.dtype()));
}

/// A vector of channels (K) as (1, K, 1, 1).
Tensor as_channels(const Tensor& v) {
  return v.as_view({1, v.size(0), 1, 1}, {0, v.stride(0), 0, 0}, v.storage_offset());
}

}  // namespace

MemoryFormat CudaBackend::conv2d_format(DType dtype) const { return format_of(dtype); }

void CudaBackend::conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                         const Conv2dParams& params) {
  if (y.numel() == 0) return;
  if (x.numel() == 0 || w.numel() == 0)  // nothing but padding to sum over
    return bias.defined() ? copy(as_channels(bias).broadcast_view(y.shape()), y) : fill(y, 0);
  const Tensor out = prepared_output(y);
  run({device_, Pass::forward, x.dtype(), allows_tf32(), x.shape(), w.shape(), y.shape(), params},
      prepared(x), prepared(w), out);
  if (bias.defined())
    binary(BinaryOp::add, out, as_channels(bias).broadcast_view(y.shape()), out, {});
  if (!out.is_same(y)) copy(out, y);
}

void CudaBackend::conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                        const Conv2dParams& params) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0 || w.numel() == 0) return fill(dx, 0);
  const Tensor out = prepared_output(dx);
  run({device_, Pass::backward_input, dx.dtype(), allows_tf32(), dx.shape(), w.shape(), dy.shape(),
       params},
      out, prepared(w), prepared(dy));
  if (!out.is_same(dx)) copy(out, dx);
}

void CudaBackend::conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                         const Tensor& dbias, const Conv2dParams& params) {
  if (dbias.defined()) reduce(ReduceOp::sum, dy, as_channels(dbias));
  if (dw.numel() == 0) return;
  if (dy.numel() == 0 || x.numel() == 0) return fill(dw, 0);
  const Tensor out = prepared_output(dw);
  run({device_, Pass::backward_weight, dw.dtype(), allows_tf32(), x.shape(), dw.shape(), dy.shape(),
       params},
      prepared(x), out, prepared(dy));
  if (!out.is_same(dw)) copy(out, dw);
}

}  // namespace rondo::cuda
