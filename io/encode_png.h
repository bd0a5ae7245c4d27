#pragma once
// encode_png: small images as PNG files, for reports and logs.
//
// Reading PNG needs libpng (data/png.cpp), because a file may use any feature of the format.
// Writing one kind of PNG needs only 40 lines and zlib, which is always available.

#include <string>

#include "tensor/tensor.h"

namespace rondo::io {

/// The bytes of a PNG file with `image`: u8 (1, H, W) or (3, H, W), contiguous on the CPU; grey or
/// RGB, 8 bits per channel (like torchvision.io.encode_png). Throws ShapeError, DTypeError,
/// DeviceError.
std::string encode_png(const Tensor& image);
/// Writes these bytes to a file, atomically (torchvision.io.write_png). Throws IoError.
void write_png(const Tensor& image, const std::string& path);

}  // namespace rondo::io
