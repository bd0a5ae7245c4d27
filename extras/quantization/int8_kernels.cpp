// Int8 inference: four times as many products per instruction as f32, and a quarter of the memory
// traffic for weights (the formulas are in int8_kernels.h).
//
// oneDNN multiplies. It reads weights in its own layout, which depends on the problem. The
// conversion would cost as much as the bytes save, so it is done once for each layout and stored
// with the weights (`Prepared`).

#include "extras/quantization/int8_kernels.h"

#include <omp.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "extras/quantization/cpu/isa/int8_table.h"
#include "tensor/cpu/conv/padded.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/strided.h"
#include "tensor/kernel_call.h"
#include "tensor/scratch.h"

namespace rondo {
namespace {

using namespace cpu;  // oneDNN's primitives and the instruction sets' kernels

void require_cpu(const Tensor& x) {
  require<DeviceError>(x.device().is_cpu(),
                       "int8 layers run only on the CPU: move the model there with "
                       "to(Device::cpu()), or run the unquantised model under autocast(bf16)");
}

struct Version {
  const void* data;
  std::uint64_t version;
  explicit Version(const Tensor& x) : data(x.data_ptr()), version(x.version()) {}
  bool operator==(const Version&) const = default;
};

/// Data derived from one version of the weights.
struct Prepared {
  Version values, scale;
  std::vector<std::int32_t> sums;  // of the values of each output channel
  std::vector<std::pair<dnnl::memory::desc, Tensor>> layouts;  // of the values
  struct Convolution {
    Int8Conv2dProblem problem;
    int threads;
    std::shared_ptr<const Primitive> primitive;
  };
  std::vector<Convolution> convolutions = {};

  explicit Prepared(const Int8Weight& w) : values(w.values), scale(w.scale) {
    const Tensor dense_values = dense(w.values);
    const std::int64_t rows = w.values.size(0), length = rows > 0 ? w.values.numel() / rows : 0;
    const auto* value = dense_values.data_ptr<std::int8_t>();
    for (std::int64_t n = 0; n < rows; ++n, value += length)
      sums.push_back(std::accumulate(value, value + length, std::int32_t{0}));
  }
};

/// The derived data for the current weights. Only change its lists while holding the weights'
/// mutex.
std::shared_ptr<Prepared> prepared(const Int8Weight& w) {
  auto known = std::static_pointer_cast<Prepared>(w.prepared.made);
  if (known != nullptr && known->values == Version(w.values) && known->scale == Version(w.scale))
    return known;
  const auto made = std::make_shared<Prepared>(w);
  w.prepared.made = made;
  return made;
}

/// The weights' values in the layout `wanted`; `plain` describes them as a contiguous tensor.
dnnl::memory in_layout(Prepared& kept, const Int8Weight& w, const dnnl::memory::desc& plain,
                       const dnnl::memory::desc& wanted) {
  for (const auto& [desc, values] : kept.layouts)
    if (desc == wanted) return memory_of(desc, values.data_ptr());
  const Tensor packed =
      Tensor::empty({static_cast<std::int64_t>(wanted.get_size())}, {.dtype = u8});
  const dnnl::memory memory = memory_of(wanted, packed.data_ptr());
  reorder(memory_of(plain, dense(w.values).data_ptr()), memory);
  kept.layouts.emplace_back(wanted, packed);
  return memory;
}

std::shared_ptr<const Primitive> convolution_of(Prepared& kept, const Int8Conv2dProblem& problem) {
  constexpr std::size_t most = 64;  // combinations of image and batch sizes that one layer gets
  const int threads = omp_get_max_threads();
  for (const auto& known : kept.convolutions)
    if (known.threads == threads && known.problem == problem) return known.primitive;
  if (kept.convolutions.size() >= most) kept.convolutions.clear();
  const auto made = std::make_shared<const Primitive>(int8_convolution(problem));
  kept.convolutions.push_back({problem, threads, made});
  return made;
}

void quantize_all(const Tensor& x, const Quantization& quantization, const Tensor& y) {
  const auto* from = x.data_ptr<float>();
  auto* to = y.data_ptr<std::uint8_t>();
  const auto inverse = static_cast<float>(1 / quantization.scale);
  const auto zero_point = static_cast<float>(quantization.zero_point);
  const auto levels = static_cast<float>(int8_levels());
  parallel_for(x.numel(), x.numel(), [&](std::int64_t begin, std::int64_t end) {
    int8_kernels().quantize(from + begin, inverse, zero_point, levels, to + begin, end - begin);
  });
}

void quantize_each_row(const Tensor& x, const Tensor& y, const Tensor& scales,
                       const Tensor& zero_points) {
  const auto* from = x.data_ptr<float>();
  auto* to = y.data_ptr<std::uint8_t>();
  auto* scale_of = scales.data_ptr<float>();
  auto* zero_point_of = zero_points.data_ptr<std::int32_t>();
  const std::int64_t length = x.size(1);
  const auto levels = static_cast<float>(int8_levels());
  parallel_for(x.size(0), x.numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      float least, most;
      int8_kernels().range(from + m * length, length, &least, &most);
      float scale = (most - least) / levels, zero_point = 0;
      if (scale == 0) scale = 1;
      if (scale == scale) zero_point = std::nearbyint(-least / scale);
      scale_of[m] = scale;
      zero_point_of[m] = static_cast<std::int32_t>(zero_point);
      int8_kernels().quantize(from + m * length, 1 / scale, zero_point, levels, to + m * length,
                              length);
    }
  });
}

void linear_of_bytes(const Tensor& x, const Tensor& scales, const Tensor& zero_points,
                     const Int8Weight& w, const Tensor& bias, const Tensor& y,
                     Activation activation) {
  const std::int64_t m = x.size(0), k = x.size(1), n = y.size(1);
  if (y.numel() == 0) return;
  const Tensor b = bias.defined() ? dense(bias) : Tensor::empty({n});
  if (!bias.defined()) CpuBackend::instance().do_fill(b, 0);
  const Tensor sums = Tensor::empty({m, n}, {.dtype = i32});
  std::shared_ptr<Prepared> kept;
  if (k == 0) {
    CpuBackend::instance().do_fill(sums, 0);
    kept = std::make_shared<Prepared>(w);
  } else {
    using tag = dnnl::memory::format_tag;
    const auto primitive = int8_matmul(m, n, k);
    dnnl::memory weights;
    {
      std::lock_guard lock(w.prepared.mutex);
      kept = prepared(w);
      // (n, k) in row-major order is (k, n) in column-major order.
      weights =
          in_layout(*kept, w, {{k, n}, dnnl::memory::data_type::s8, tag::ba}, primitive->weights);
    }
    execute(*primitive, {{DNNL_ARG_SRC, memory_of(primitive->source, x.data_ptr())},
                         {DNNL_ARG_WEIGHTS, weights},
                         {DNNL_ARG_DST, memory_of(primitive->destination, sums.data_ptr())}});
  }
  const Tensor weight_scale = dense(w.scale);
  const auto* scale = scales.data_ptr<float>();
  const auto* zero_point = zero_points.data_ptr<std::int32_t>();
  parallel_for(m, y.numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      int8_kernels().dequantize(sums.data_ptr<std::int32_t>() + i * n, scale[i], zero_point[i],
                                weight_scale.data_ptr<float>(), kept->sums.data(),
                                b.data_ptr<float>(), activation == Activation::relu,
                                y.data_ptr<float>() + i * n, n);
  });
  if (activation != Activation::relu) apply_activation(activation, y);
}

/// t with a channel of zeros after each channel.
Tensor with_zero_channels(const Tensor& t, MemoryFormat format) {
  const Tensor all = Tensor::empty({t.size(0), 2 * t.size(1), t.size(2), t.size(3)},
                                   {.dtype = t.dtype(), .format = format});
  CpuBackend& cpu = CpuBackend::instance();
  cpu.do_fill(all, 0);
  const Dims strides = {all.stride(0), 2 * all.stride(1), all.stride(2), all.stride(3)};
  cpu.do_copy(t, all.as_view(t.shape(), strides, 0));
  return all;
}

/// bias − zero_point Σ w, scaled: what the zero point adds to a convolution without padding. It is
/// rounded to f32: an error of 2^-24 of the sum. For groups of up to a hundred channels that is far
/// below the error of the quantisation.
Tensor bias_with_zero_point(const Quantization& quantization, const Int8Weight& w,
                            const Tensor& bias) {
  std::shared_ptr<Prepared> kept;
  {
    std::lock_guard lock(w.prepared.mutex);
    kept = prepared(w);
  }
  const std::int64_t channels = w.values.size(0);
  const Tensor scale = dense(w.scale), old = bias.defined() ? dense(bias) : bias,
               result = Tensor::empty({channels});
  for (std::int64_t k = 0; k < channels; ++k) {
    const double moved = static_cast<double>(quantization.zero_point) *
                         kept->sums[static_cast<std::size_t>(k)] * quantization.scale *
                         static_cast<double>(scale.data_ptr<float>()[k]);
    const double before = old.defined() ? static_cast<double>(old.data_ptr<float>()[k]) : 0;
    result.data_ptr<float>()[k] = static_cast<float>(before - moved);
  }
  return result;
}

void conv2d_of_bytes(const Tensor& x, const Quantization& quantization, const Int8Weight& w,
                     const Tensor& bias, bool relu, const Tensor& y, const Conv2dParams& params) {
  if (y.numel() == 0) return;
  // oneDNN computes some cases wrongly (tests/tensor/onednn_scan_test.cpp). They are computed in
  // other ways, with every version and instruction set. 2.6 with AVX2: one-pixel filters with a
  // stride. The pixels that such a filter reads are copied.
  Conv2dParams inner = params;
  const bool has_padding = params.pad_h > 0 || params.pad_w > 0;
  if (params.groups == 1 && is_strided_pixel(w.values, params)) {
    inner.stride_h = inner.stride_w = 1;
    return conv2d_of_bytes(dense(pixels_read(x, y, params), MemoryFormat::channels_last),
                           quantization, w, bias, relu, y, inner);
  }
  // 2.6: zero points of groups, except of single channels. 3.7: single channels with a stride if
  // the output is one pixel wide.
  const bool is_single = w.values.size(1) == 1,
             is_depthwise = is_single && w.values.size(0) == params.groups,
             has_zero_of_groups =
                 params.groups > 1 && quantization.zero_point != 0 && !is_depthwise;
  if (sees_only_padding(x, w.values, params) || (has_zero_of_groups && has_padding) ||
      (is_single && y.size(3) == 1 && params.stride_w > 1)) {
    inner.pad_h = inner.pad_w = 0;
    if (y.size(3) == 1) inner.stride_w = 1;
    const auto zero = static_cast<double>(quantization.zero_point);
    return conv2d_of_bytes(padded(x, zero, w.values, y, params), quantization, w, bias, relu, y,
                           inner);
  }
  if (has_zero_of_groups)
    return conv2d_of_bytes(x, {.scale = quantization.scale, .zero_point = 0}, w,
                           bias_with_zero_point(quantization, w, bias), relu, y, params);
  // 3.7: groups of one channel that have several outputs.
  if (is_single && params.groups > 1 && w.values.size(0) > params.groups) {
    const Tensor values = with_zero_channels(w.values, MemoryFormat::contiguous);
    Int8Weight::Prepared prepared;
    return conv2d_of_bytes(with_zero_channels(x, MemoryFormat::channels_last), quantization,
                           {values, w.scale, prepared}, bias, relu, y, params);
  }
  const std::int64_t channels = y.size(1);
  const Tensor scales = Tensor::empty({channels});
  CpuBackend::instance().do_unary(UnaryOp::mul_scalar, w.scale, scales,
                                  {.alpha = quantization.scale});
  const auto* scale = scales.data_ptr<float>();
  const Int8Conv2dProblem problem{.shape = {.pass = Conv2dProblem::Pass::forward,
                                            .dtype = u8,
                                            .n = x.size(0),
                                            .c = x.size(1),
                                            .h = x.size(2),
                                            .w = x.size(3),
                                            .k = channels,
                                            .r = w.values.size(2),
                                            .s = w.values.size(3),
                                            .p = y.size(2),
                                            .q = y.size(3),
                                            .params = params,
                                            .bias = bias.defined()},
                                  .scales = {scale, scale + channels},
                                  .zero_point = quantization.zero_point != 0,
                                  .relu = relu};
  using tag = dnnl::memory::format_tag;
  using type = dnnl::memory::data_type;
  dnnl::memory::dims dims = {channels, w.values.size(1), w.values.size(2), w.values.size(3)};
  if (params.groups > 1) {
    dims.insert(dims.begin(), params.groups);
    dims[1] /= params.groups;
  }
  const dnnl::memory::desc plain(dims, type::s8, params.groups > 1 ? tag::goihw : tag::oihw);
  std::shared_ptr<Prepared> kept;
  std::shared_ptr<const Primitive> primitive;
  dnnl::memory weights;
  {
    std::lock_guard lock(w.prepared.mutex);
    kept = prepared(w);
    primitive = convolution_of(*kept, problem);
    weights = in_layout(*kept, w, plain, primitive->weights);
  }

  Tensor b = bias;
  if (b.defined() && int8_scales_bias) {
    b = Tensor::empty({channels});
    CpuBackend::instance().do_binary(BinaryOp::div, bias, scales, b, {});
  }
  auto zero_point = static_cast<std::int32_t>(quantization.zero_point);
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, memory_of(primitive->source, x.data_ptr())},
      {DNNL_ARG_WEIGHTS, weights},
      {DNNL_ARG_DST, memory_of(primitive->destination, y.data_ptr())}};
  if (b.defined()) arguments.emplace(DNNL_ARG_BIAS, memory_of(primitive->bias, b.data_ptr()));
  if (int8_scales_are_arguments)
    arguments.emplace(int8_scales, memory_of({{channels}, type::f32, tag::a}, scales.data_ptr()));
  if (problem.zero_point)
    arguments.emplace(int8_zero_point, memory_of({{1}, type::s32, tag::a}, &zero_point));
  execute(*primitive, std::move(arguments));
}

}  // namespace

int int8_levels() {
  static const int levels = has_int8_dot_product() ? 255 : 127;
  return levels;
}

void quantize(const Tensor& x, const Quantization& quantization, const Tensor& y) {
  require_cpu(x);
  const KernelCall call("quantize", {}, x, y);
  quantize_all(x, quantization, y);
}

void quantize_rows(const Tensor& x, const Tensor& y, const Tensor& scales,
                   const Tensor& zero_points) {
  require_cpu(x);
  const KernelCall call("quantize_rows", {}, x, y, scales, zero_points);
  quantize_each_row(x, y, scales, zero_points);
}

void int8_linear(const Tensor& x, const Tensor& scales, const Tensor& zero_points,
                 const Int8Weight& w, const Tensor& bias, const Tensor& y, Activation activation) {
  require_cpu(x);
  const KernelCall call("int8_linear", {.flops = 2.0 * static_cast<double>(y.numel() * x.size(1))},
                        x, w.values, w.scale, bias, y);
  linear_of_bytes(x, scales, zero_points, w, bias, y, activation);
}

void int8_conv2d(const Tensor& x, const Quantization& quantization, const Int8Weight& w,
                 const Tensor& bias, bool relu, const Tensor& y, const Conv2dParams& params) {
  require_cpu(x);
  const KernelCall call("int8_conv2d", {.flops = conv2d_flops(y, w.values)}, x, w.values, w.scale,
                        bias, y);
  conv2d_of_bytes(x, quantization, w, bias, relu, y, params);
}

}  // namespace rondo
