#pragma once
// encode_png: small pictures as PNG files, for reports and logs.
//
// Reading PNG takes libpng (data/png.cpp), since files may hold anything; writing one kind of it
// takes 40 lines around zlib, which is always there.

#include <string>

#include "tensor/tensor.h"

namespace rondo::io {

/// The bytes of a PNG file of `image`, u8 (1, H, W) or (3, H, W), dense on the CPU: grey or RGB, 8
/// bits a channel (torchvision.io.encode_png). Throws ShapeError, DTypeError, DeviceError.
std::string encode_png(const Tensor& image);

}  // namespace rondo::io
