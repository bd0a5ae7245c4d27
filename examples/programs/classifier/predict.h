#pragma once

#include <string>

#include "tensor/tensor.h"

namespace examples {

/// Reads a binary PPM (P6, colour) or PGM (P5, grey) file with 8 bits per channel. Returns u8
/// (1, channels, H, W). Throws IoError naming the file if it is missing, in another format, or cut
/// short.
rondo::Tensor read_ppm(const std::string& path);

/// Converts `image`, u8 (1, C, H, W), to (1, channels, height, width). Grey is repeated for each
/// channel, or colours are averaged. Each output pixel is the mean of the input area that it
/// covers.
rondo::Tensor fit_image(const rondo::Tensor& image, std::int64_t channels, std::int64_t height,
                        std::int64_t width);

}  // namespace examples
