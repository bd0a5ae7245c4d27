#pragma once
// The two decoders behind data/image.h, each in a file of its own with its C library.
//
// Note [Errors of C libraries]: libjpeg and libpng leave through longjmp, which skips destructors.
// So every call into them is in a function with a setjmp and no object that has a destructor; it
// says whether all went well. What owns memory or throws lives in its callers.

#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace rondo::data {

/// As decode_image, for bytes that begin as such a file does.
Tensor decode_jpeg(std::span<const std::byte> bytes, const std::string& name);
Tensor decode_png(std::span<const std::byte> bytes, const std::string& name);

/// Throws IoError for a picture without pixels, or with more than image.h allows.
inline void check_image_size(std::int64_t height, std::int64_t width, const std::string& name) {
  require<IoError>(height > 0 && width > 0 && height <= max_image_side && width <= max_image_side &&
                       height * width <= max_image_pixels,
                   name, ": a picture of ", height, " x ", width, " pixels, but there may be 1 to ",
                   max_image_pixels, " of them, ", max_image_side, " a side");
}

}  // namespace rondo::data
