// Convolution's three primitives through oneDNN, on channels_last activations (Note [Layouts on the
// CPU] in onednn.h), or, where that is faster, by products of our own: 3x3 filters by Winograd's
// method (winograd.h), a few pixels (few_pixels.h), blocks of pixels (implicit_gemm.h); f64 and
// integers by the reference loops.

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/few_pixels.h"
#include "tensor/cpu/implicit_gemm.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/padded.h"
#include "tensor/cpu/prepared_weights.h"
#include "tensor/cpu/reference.h"
#include "tensor/cpu/winograd.h"
#include "tensor/scratch.h"

namespace rondo::cpu {
namespace {

constexpr MemoryFormat nhwc = MemoryFormat::channels_last;

Conv2dProblem describe(Conv2dProblem::Pass pass, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Conv2dParams& params, bool bias) {
  return {.pass = pass,
          .dtype = x.dtype(),
          .n = x.size(0),
          .c = x.size(1),
          .h = x.size(2),
          .w = x.size(3),
          .k = w.size(0),
          .r = w.size(2),
          .s = w.size(3),
          .p = y.size(2),
          .q = y.size(3),
          .params = params,
          .bias = bias};
}

/// The dense weight (K, C/groups, R, S) as oneDNN calls it.
dnnl::memory dense_weight(const Tensor& w, std::int64_t groups) {
  using tag = dnnl::memory::format_tag;
  auto type = data_type_of(w.dtype());
  dnnl::memory::dims dims = {w.size(0), w.size(1), w.size(2), w.size(3)};
  if (groups > 1) dims = {groups, w.size(0) / groups, w.size(1), w.size(2), w.size(3)};
  return memory_of({dims, type, groups > 1 ? tag::goihw : tag::oihw}, w.data_ptr());
}

/// Memory for a weight in the layout a primitive wants.
struct BlockedWeight {
  explicit BlockedWeight(const dnnl::memory::desc& desc)
      : storage(std::make_shared<Storage>(desc.get_size(), CachingAllocator::instance())),
        memory(memory_of(desc, storage->data())) {}
  /// Filled from the dense weight w, now or earlier.
  BlockedWeight(const std::shared_ptr<const Primitive>& primitive, const Tensor& w,
                std::int64_t groups)
      : storage(prepared_weight(w, {.layout = primitive->weights}, primitive->weights.get_size(),
                                [&](void* data) {
                                  reorder(dense_weight(w, groups),
                                          memory_of(primitive->weights, data));
                                })),
        memory(memory_of(primitive->weights, storage->data())) {}
  StoragePtr storage;
  dnnl::memory memory;
};

/// Activations in the layout a primitive wants: the channels_last tensor's own memory, or scratch
/// memory in blocks, to be filled from the tensor before (load) or copied to it after (store).
class Activations {
 public:
  Activations(const Primitive& primitive, const dnnl::memory::desc& desc, const Tensor& t)
      : tensor_(t) {
    if (primitive.blocked && t.size(1) != 16) {
      storage_ = Tensor::empty({static_cast<std::int64_t>(desc.get_size())}, {.dtype = u8});
      memory = memory_of(desc, storage_.data_ptr());
    } else {
      memory = memory_of(desc, t.data_ptr());
    }
  }
  const dnnl::memory& load() const {
    if (storage_.defined()) reorder(channels_last(tensor_), memory);
    return memory;
  }
  void store() const {
    if (storage_.defined()) reorder(memory, channels_last(tensor_));
  }
  dnnl::memory memory;

 private:
  Tensor tensor_, storage_;
};

/// A vector of channels (K) as (1, K, 1, 1).
Tensor as_channels(const Tensor& v) {
  return v.as_view({1, v.size(0), 1, 1}, {0, v.stride(0), 0, 0}, v.storage_offset());
}

/// Whether this dtype must be computed in f32 on its behalf.
bool needs_f32(DType dtype) { return is_floating(dtype) && dtype != f64 && !has_dtype(dtype); }

// What oneDNN gets wrong with AVX-512, as tests/tensor/onednn_scan_test.cpp finds, is computed in
// other ways, whatever the version.

bool is_strided_pixel(const Tensor& w, const Conv2dParams& params) {
  return w.size(2) == 1 && w.size(3) == 1 && params.pad_h == 0 && params.pad_w == 0 &&
         (params.stride_h > 1 || params.stride_w > 1);
}

/// Gradients also in bf16: of single channels and images smaller than the filter (wrong in 2.6),
/// and of a filter of one pixel with a stride and an odd number of outputs (wrong in 3.7).
bool gradient_needs_f32(const Tensor& x, const Tensor& w, const Conv2dParams& params) {
  const bool is_small = x.size(2) <= params.dilation_h * (w.size(2) - 1) ||
                        x.size(3) <= params.dilation_w * (w.size(3) - 1);
  return needs_f32(x.dtype()) ||
         (x.dtype() == bf16 && (is_small || x.size(1) == 1 || w.size(0) == 1 ||
                                (is_strided_pixel(w, params) && w.size(0) % 2 != 0)));
}

/// A filter of one pixel with a stride reads only some of x's pixels. oneDNN 2.6
/// gathers them into a buffer that is too small unless the channels fill blocks of 16, so then they
/// are gathered here.
bool must_gather(const Tensor& x, const Tensor& w, const Conv2dParams& params) {
  return is_strided_pixel(w, params) && x.size(1) % 16 != 0;
}

/// The pixels of x that a filter of one pixel reads for dy.
Tensor pixels_read(const Tensor& x, const Tensor& dy, const Conv2dParams& params) {
  return x.as_view(
      {x.size(0), x.size(1), dy.size(2), dy.size(3)},
      {x.stride(0), x.stride(1), x.stride(2) * params.stride_h, x.stride(3) * params.stride_w},
      x.storage_offset());
}

bool by_winograd(const Conv2dProblem& problem) {
  return winograd::enabled() && winograd::suits(problem);
}

/// Runs `compute` on a tensor that is dense channels_last, and copies into y if that is another.
template <class F>
void into_nhwc(const Tensor& y, F compute) {
  if (y.is_contiguous(nhwc)) return compute(y);
  Tensor result = Tensor::empty(y.shape(), {.dtype = y.dtype(), .format = nhwc});
  compute(result);
  CpuBackend::instance().copy(result, y);
}

}  // namespace

MemoryFormat CpuBackend::conv2d_format(DType dtype) const {
  return dtype == f64 || !is_floating(dtype) ? MemoryFormat::contiguous : nhwc;
}

void CpuBackend::conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                        const Conv2dParams& params) {
  if (y.numel() == 0) return;
  if (x.numel() == 0 || w.numel() == 0)  // nothing but padding to sum over
    return bias.defined() ? copy(as_channels(bias).broadcast_view(y.shape()), y) : fill(y, 0);
  if (needs_f32(y.dtype())) {
    Tensor result = Tensor::empty(y.shape(), {.format = nhwc});
    conv2d(as_f32(x), as_f32(w), as_f32(bias), result, params);
    return copy(result, y);
  }
  if (!has_dtype(y.dtype())) return reference::conv2d(x, w, bias, y, params);
  // oneDNN 3.7 is also wrong for single channels with a stride if the output is one pixel wide.
  if (sees_only_padding(x, w, params) ||
      (w.size(1) == 1 && y.size(3) == 1 && params.stride_w > 1)) {
    Conv2dParams inner = params;
    inner.pad_h = inner.pad_w = 0;
    if (y.size(3) == 1) inner.stride_w = 1;
    return conv2d(padded(x, 0, w, y, params), w, bias, y, inner);
  }
  Tensor source = dense(x, nhwc), master = dense(w);
  Tensor b = bias.defined() ? dense(bias) : bias;
  into_nhwc(y, [&](const Tensor& out) {
    const auto problem = describe(Conv2dProblem::Pass::forward, x, w, y, params, bias.defined());
    if (winograd::enabled() && winograd::suits_small_tiles(problem))
      return winograd::conv2d_small_tiles(source, master, as_f32(b), out, params);
    if (few_pixels::suits(problem)) return few_pixels::conv2d(source, master, b, out, params);
    if (by_winograd(problem)) return winograd::conv2d(source, master, as_f32(b), out, params);
    if (implicit_gemm::suits(problem)) return implicit_gemm::conv2d(source, master, b, out, params);
    const auto prepared = convolution(problem);
    const Primitive& primitive = *prepared;
    const BlockedWeight weight(prepared, master, params.groups);
    Activations input(primitive, primitive.source, source);
    Activations output(primitive, primitive.destination, out);
    std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, input.load()},
                                                       {DNNL_ARG_WEIGHTS, weight.memory},
                                                       {DNNL_ARG_DST, output.memory}};
    if (b.defined()) arguments.emplace(DNNL_ARG_BIAS, memory_of(primitive.bias, b.data_ptr()));
    execute(primitive, std::move(arguments));
    output.store();
  });
}

void CpuBackend::conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                       const Conv2dParams& params) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0 || w.numel() == 0) return fill(dx, 0);
  if (gradient_needs_f32(dx, w, params)) {
    Tensor result = Tensor::empty(dx.shape(), {.format = nhwc});
    conv2d_backward_input(as_f32(dy), as_f32(w), result, params);
    return copy(result, dx);
  }
  if (!has_dtype(dx.dtype())) return reference::conv2d_backward_input(dy, w, dx, params);
  Tensor gradient = dense(dy, nhwc), master = dense(w);
  into_nhwc(dx, [&](const Tensor& out) {
    const auto problem = describe(Conv2dProblem::Pass::backward_input, dx, w, dy, params, false);
    if (by_winograd(problem)) return winograd::conv2d_backward_input(gradient, master, out, params);
    if (implicit_gemm::suits(problem))
      return implicit_gemm::conv2d_backward_input(gradient, master, out, params);
    const auto prepared = convolution(problem);
    const Primitive& primitive = *prepared;
    const BlockedWeight weight(prepared, master, params.groups);
    Activations above(primitive, primitive.destination, gradient);
    Activations below(primitive, primitive.source, out);
    execute(primitive, {{DNNL_ARG_DIFF_DST, above.load()},
                        {DNNL_ARG_WEIGHTS, weight.memory},
                        {DNNL_ARG_DIFF_SRC, below.memory}});
    below.store();
  });
}

void CpuBackend::conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                        const Tensor& dbias, const Conv2dParams& params) {
  if (dy.numel() == 0 || x.numel() == 0 || dw.numel() == 0) {
    if (dw.numel() > 0) fill(dw, 0);
    if (dbias.defined()) reduce(FoldOp::sum, dy, as_channels(dbias));
    return;
  }
  if (must_gather(x, dw, params))
    return conv2d_backward_weight(dy, dense(pixels_read(x, dy, params), nhwc), dw, dbias,
                                  {.groups = params.groups});
  if (gradient_needs_f32(x, dw, params)) {
    Tensor weight = Tensor::empty(dw.shape());
    Tensor bias = dbias.defined() ? Tensor::empty(dbias.shape()) : dbias;
    conv2d_backward_weight(as_f32(dy), as_f32(x), weight, bias, params);
    copy(weight, dw);
    if (dbias.defined()) copy(bias, dbias);
    return;
  }
  if (!has_dtype(dw.dtype())) return reference::conv2d_backward_weight(dy, x, dw, dbias, params);
  Tensor source = dense(x, nhwc), gradient = dense(dy, nhwc);
  Tensor dense_dw = dw.is_contiguous() ? dw : Tensor::empty(dw.shape(), dw.options());
  const auto problem =
      describe(Conv2dProblem::Pass::backward_weight, x, dw, dy, params, dbias.defined());
  const bool use_winograd = by_winograd(problem);
  if (use_winograd || implicit_gemm::suits(problem)) {
    Tensor sums = dense_dw.dtype() == f32 ? dense_dw : Tensor::empty(dw.shape());
    auto* compute =
        use_winograd ? winograd::conv2d_backward_weight : implicit_gemm::conv2d_backward_weight;
    compute(gradient, source, sums, params);
    if (!sums.is_same(dw)) copy(sums, dw);
    if (dbias.defined()) reduce(FoldOp::sum, gradient, as_channels(dbias));
    return;
  }
  const auto prepared = convolution(problem);
  const Primitive& primitive = *prepared;
  BlockedWeight weight(primitive.weights);
  Activations below(primitive, primitive.source, source);
  Activations above(primitive, primitive.destination, gradient);
  std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, below.load()},
                                                     {DNNL_ARG_DIFF_DST, above.load()},
                                                     {DNNL_ARG_DIFF_WEIGHTS, weight.memory}};
  if (dbias.defined())
    arguments.emplace(DNNL_ARG_DIFF_BIAS, memory_of(primitive.bias, dbias.data_ptr()));
  execute(primitive, std::move(arguments));
  reorder(weight.memory, dense_weight(dense_dw, params.groups));
  if (!dense_dw.is_same(dw)) copy(dense_dw, dw);
}

}  // namespace rondo::cpu
