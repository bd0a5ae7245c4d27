#include "tensor/cpu/conv/padded.h"

#include <algorithm>

#include "tensor/cpu/cpu_backend.h"

namespace rondo::cpu {
namespace {

/// In one dimension, whether a window is entirely before or after the image, or has taps only on
/// both sides of it.
bool is_missed(std::int64_t image, std::int64_t filter, std::int64_t padding,
               std::int64_t dilation) {
  return padding > 0 && (padding > dilation * (filter - 1) || (filter > 1 && image < dilation));
}

}  // namespace

bool sees_only_padding(const Tensor& x, const Tensor& w, const Conv2dParams& params) {
  return is_missed(x.size(2), w.size(2), params.pad_h, params.dilation_h) ||
         is_missed(x.size(3), w.size(3), params.pad_w, params.dilation_w);
}

Tensor padded(const Tensor& x, double value, const Tensor& w, const Tensor& y,
              const Conv2dParams& params) {
  const auto read = [](std::int64_t outputs, std::int64_t stride, std::int64_t dilation,
                       std::int64_t filter) {
    return (outputs - 1) * stride + dilation * (filter - 1) + 1;
  };
  const std::int64_t height = read(y.size(2), params.stride_h, params.dilation_h, w.size(2)),
                     width = read(y.size(3), params.stride_w, params.dilation_w, w.size(3));
  const Tensor all = Tensor::empty({x.size(0), x.size(1), height, width},
                                   {.dtype = x.dtype(), .format = MemoryFormat::channels_last});
  CpuBackend& cpu = CpuBackend::instance();
  cpu.do_fill(all, value);
  const std::int64_t rows = std::min(x.size(2), height - params.pad_h),
                     columns = std::min(x.size(3), width - params.pad_w);
  if (rows <= 0 || columns <= 0) return all;
  const Dims inner = {x.size(0), x.size(1), rows, columns};
  cpu.do_copy(x.as_view(inner, x.strides(), x.storage_offset()),
              all.as_view(inner, all.strides(),
                          params.pad_h * all.stride(2) + params.pad_w * all.stride(3)));
  return all;
}

bool is_strided_pixel(const Tensor& w, const Conv2dParams& params) {
  return w.size(2) == 1 && w.size(3) == 1 && params.pad_h == 0 && params.pad_w == 0 &&
         (params.stride_h > 1 || params.stride_w > 1);
}

Tensor pixels_read(const Tensor& x, const Tensor& y, const Conv2dParams& params) {
  return x.as_view(
      {x.size(0), x.size(1), y.size(2), y.size(3)},
      {x.stride(0), x.stride(1), x.stride(2) * params.stride_h, x.stride(3) * params.stride_w},
      x.storage_offset());
}

}  // namespace rondo::cpu
