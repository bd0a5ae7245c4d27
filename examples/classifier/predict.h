#pragma once

#include <string>

#include "tensor/tensor.h"

namespace examples {

/// A binary PPM (P6, colour) or PGM (P5, grey) file of 8 bits as u8 (1, channels, H, W). Throws
/// IoError naming the file when it is missing, of another form, or cut short.
rondo::Tensor read_ppm(const std::string& path);

/// `image` (1, C, H, W) in u8 brought to `channels` × height × width: grey is repeated or colour
/// averaged, and each output pixel is the mean of the input area that it covers.
rondo::Tensor fit_image(const rondo::Tensor& image, std::int64_t channels, std::int64_t height,
                        std::int64_t width);

}  // namespace examples
