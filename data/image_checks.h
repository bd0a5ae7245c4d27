#pragma once
// What the functions of data/image_ops.h ask of a picture.

#include "tensor/tensor.h"

namespace rondo::data {

/// Throws DTypeError, DeviceError or ShapeError, with the function's name, for anything but u8
/// (H, W, 3) with pixels, contiguous, on the CPU.
inline void check_image(const Tensor& image, const char* function) {
  require<DTypeError>(image.dtype() == u8, function, ": a picture of ", image.dtype(),
                      " instead of bytes (u8)");
  require<DeviceError>(image.device().is_cpu(), function, ": a picture on ", image.device(),
                       ", but pictures are worked on by the CPU");
  require<ShapeError>(
      image.dim() == 3 && image.size(2) == 3 && image.numel() > 0 && image.is_contiguous(),
      function, ": a picture ", image.shape(), " is no contiguous (H, W, 3)");
}

}  // namespace rondo::data
