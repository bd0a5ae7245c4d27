#include "extras/quantization/int8.h"

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "extras/quantization/fake_quantize.h"
#include "tensor/creation.h"
#include "tensor/scratch.h"

namespace rondo::nn {
namespace {

/// round(w / scale[n]) as bytes.
Tensor rounded(const Tensor& w, const Tensor& scale) {
  NoGradGuard no_grad;
  Dims sizes = {w.size(0)};
  for (std::int64_t d = 1; d < w.dim(); ++d) sizes.push_back(1);
  const Tensor inverse = reshape(1.0 / scale, sizes);
  return clamp(round(w.detach().to(f32) * inverse), -127, 127).to(i8).contiguous();
}

}  // namespace

Int8Layer::Int8Layer(const Tensor& weight, const Tensor& bias,
                     const std::optional<Quantization>& input) {
  const std::int64_t products = weight.numel() / std::max<std::int64_t>(weight.size(0), 1);
  require(products <= int8_most_products, "int8: a sum of ", products,
          " products of bytes may not fit in 32 bits; at most ", int8_most_products, " do");
  weight_scale = symmetric_scales(weight);
  weight_int8 = rounded(weight, weight_scale);
  if (bias.defined()) this->bias = bias.detach().to(f32).clone();
  if (input) {
    input_scale = full({}, input->scale);
    input_zero_point = full({}, input->zero_point, {.dtype = i64});
  }
}

void Int8Layer::check(const Tensor& x, const char* what) const {
  require<DTypeError>(is_floating(x.dtype()), what, ": the input is ", x.dtype(), ", not a float");
  require<DeviceError>(x.device() == Device::cpu() && weight_int8.device() == Device::cpu(), what,
                       ": input on ", x.device(), ", weight on ", weight_int8.device(),
                       "; int8 layers run only on the CPU");
  require<AutogradError>(!TraceMode::is_enabled(), what,
                         " cannot be part of a graph of ops, such as ONNX: export before convert");
  require<AutogradError>(!any_requires_grad({&x, 1}), what,
                         " has no gradient: run it under NoGradGuard, or train before convert");
}

Quantization Int8Layer::input() const {
  const auto scale = input_scale.item<double>();
  const auto zero_point = input_zero_point.item<std::int64_t>();
  const int levels = int8_levels();
  if (levels == 255) return {scale, zero_point};
  const auto fewer = std::nearbyint(static_cast<double>(zero_point) * levels / 255);
  return {scale * 255 / levels, static_cast<std::int64_t>(fewer)};
}

Int8Linear::Int8Linear(const Linear& linear, const std::optional<Quantization>& input)
    : Int8Layer(linear.weight, linear.bias, input),
      in_features(linear.in_features),
      out_features(linear.out_features) {}

Tensor Int8Linear::operator()(const Tensor& x, Activation activation) {
  return call([&](const Tensor& in) { return run(in, activation); }, x);
}

Tensor Int8Linear::run(const Tensor& input_tensor, Activation activation) {
  require<ShapeError>(input_tensor.dim() >= 1 && input_tensor.size(-1) == in_features,
                      "Int8Linear: input ", input_tensor.shape(), " is not (…, ", in_features, ")");
  check(input_tensor, "Int8Linear");
  NoGradGuard no_grad;
  const Tensor x = dense(as_f32(input_tensor.detach()));
  Dims sizes = x.shape();
  sizes[x.dim() - 1] = out_features;
  const std::int64_t rows = numel_of(Dims(x.shape().begin(), x.shape().end() - 1));
  const Tensor matrix = x.as_view({rows, in_features}, {in_features, 1}, x.storage_offset());

  const Tensor bytes = Tensor::empty({rows, in_features}, {.dtype = u8});
  const Tensor scales = Tensor::empty({rows});
  const Tensor zero_points = Tensor::empty({rows}, {.dtype = i32});
  Backend& cpu = backend(x);
  if (is_dynamic()) {
    quantize_rows(matrix, bytes, scales, zero_points);
  } else {
    const Quantization q = input();
    quantize(matrix, q, bytes);
    cpu.fill(scales, q.scale);
    cpu.fill(zero_points, q.zero_point);
  }
  const Tensor y = Tensor::empty({rows, out_features});
  int8_linear(bytes, scales, zero_points, weight(), bias, y, activation);
  return reshape(y, sizes);
}

Int8Conv2d::Int8Conv2d(const Conv2d& conv, const Quantization& input, bool relu)
    : Int8Layer(conv.weight, conv.bias, input),
      in_channels(conv.in_channels),
      out_channels(conv.out_channels),
      kernel_size(conv.kernel_size),
      options(conv.options),
      outer_padding(conv.outer_padding),
      relu(relu) {}

Tensor Int8Conv2d::forward(const Tensor& unpadded) {
  require<ShapeError>(unpadded.dim() == 4 && unpadded.size(1) == in_channels, "Int8Conv2d: input ",
                      unpadded.shape(), " is not (N, ", in_channels, ", H, W)");
  const Conv2dOptions& o = options;
  const Tensor input_tensor =
      outer_padding.empty() ? unpadded : pad(unpadded, outer_padding, o.padding_mode);
  const std::int64_t p = conv_output_size(input_tensor.size(2), kernel_size.h, o.stride.h,
                                          o.padding.h, o.dilation.h),
                     q = conv_output_size(input_tensor.size(3), kernel_size.w, o.stride.w,
                                          o.padding.w, o.dilation.w);
  require<ShapeError>(p > 0 && q > 0, "Int8Conv2d: the kernel is larger than the input ",
                      input_tensor.shape());
  check(input_tensor, "Int8Conv2d");
  NoGradGuard no_grad;
  constexpr MemoryFormat nhwc = MemoryFormat::channels_last;
  const Tensor x = dense(as_f32(input_tensor.detach()), nhwc);
  const Tensor bytes = Tensor::empty(x.shape(), {.dtype = u8, .format = nhwc});
  const Tensor y = Tensor::empty({x.size(0), out_channels, p, q}, {.format = nhwc});
  const Quantization in = input();
  quantize(x, in, bytes);
  int8_conv2d(bytes, in, weight(), bias, relu, y,
              {.stride_h = o.stride.h,
               .stride_w = o.stride.w,
               .pad_h = o.padding.h,
               .pad_w = o.padding.w,
               .dilation_h = o.dilation.h,
               .dilation_w = o.dilation.w,
               .groups = o.groups});
  return y;
}

}  // namespace rondo::nn
