#pragma once
// The same elements with different strides, which must not matter to any kernel.

#include <string>

#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo::test {

enum class Layout {
  contiguous,
  channels_last,  // contiguous, unless there are 4 dimensions
  reversed,       // the first dimension is the fastest
  permuted,       // the first two dimensions exchanged: the second one is the slowest
  gaps,           // a slice of a larger tensor that starts inside it
};

inline constexpr Layout all_layouts[] = {Layout::contiguous, Layout::channels_last,
                                         Layout::reversed, Layout::permuted, Layout::gaps};

/// Uninitialised; the space between the elements of `gaps` is filled with a wrong value.
inline Tensor empty_in(Layout layout, const Dims& sizes, DType dtype, Device device = {}) {
  const TensorOptions options{.dtype = dtype, .device = device};
  if (layout == Layout::channels_last && sizes.size() == 4) {
    return empty(sizes, {.dtype = dtype, .device = device, .format = MemoryFormat::channels_last});
  }
  Dims strides = Dims::filled(sizes.size(), 1);
  if (layout == Layout::reversed) {
    for (std::int64_t d = 1; d < sizes.size(); ++d) strides[d] = strides[d - 1] * sizes[d - 1];
    return empty(sizes, options).as_view(sizes, strides, 0);
  }
  if (layout == Layout::permuted && sizes.size() >= 2) {
    Dims exchanged = sizes;
    std::swap(exchanged[0], exchanged[1]);
    strides = strides_of(exchanged);
    std::swap(strides[0], strides[1]);
    return empty(sizes, options).as_view(sizes, strides, 0);
  }
  if (layout == Layout::gaps) {
    Dims larger = sizes;
    std::int64_t first = 0;
    for (std::int64_t& size : larger) size = 2 * size + 1;
    const Dims steps = strides_of(larger);
    for (std::int64_t d = 0; d < sizes.size(); ++d) {
      first += steps[d];
      strides[d] = 2 * steps[d];
    }
    return full(larger, 77, options).as_view(sizes, strides, first);
  }
  return empty(sizes, options);
}

/// x's elements, converted, in another layout.
inline Tensor relaid(Layout layout, const Tensor& x, DType dtype, Device device = {}) {
  Tensor y = empty_in(layout, x.shape(), dtype, device);
  if (x.numel() > 0) backend(device.is_cpu() ? x.device() : device).copy(x, y);
  return y;
}
inline Tensor relaid(Layout layout, const Tensor& x) { return relaid(layout, x, x.dtype()); }
inline Tensor converted(const Tensor& x, DType dtype) {
  return relaid(Layout::contiguous, x, dtype);
}

}  // namespace rondo::test
