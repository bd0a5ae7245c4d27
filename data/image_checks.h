#pragma once
// Checks that the functions of data/image_ops.h make on a picture.

#include "tensor/tensor.h"

namespace rondo::data {

/// Throws DTypeError, DeviceError or ShapeError, with the function's name, unless `image` is u8 (H,
/// W, 3), non-empty, contiguous and on the CPU.
inline void check_image(const Tensor& image, const char* function) {
  require<DTypeError>(image.dtype() == u8, function, ": a picture of ", image.dtype(),
                      ", but it must be u8");
  require<DeviceError>(image.device().is_cpu(), function, ": a picture on ", image.device(),
                       ", but it must be on the CPU");
  require<ShapeError>(
      image.dim() == 3 && image.size(2) == 3 && image.numel() > 0 && image.is_contiguous(),
      function, ": a picture ", image.shape(), " is not a contiguous (H, W, 3), or is empty");
}

}  // namespace rondo::data
