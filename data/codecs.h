#pragma once
// The two decoders of data/image.h. Each is in its own file, with its C library.
//
// Note [Errors of C libraries]: libjpeg and libpng report errors through longjmp, which skips
// destructors. So every call into them is in a function that has a setjmp and no objects with
// destructors, and that returns whether the call succeeded. Its callers own memory and throw.

#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace rondo::data {

/// As decode_image, for bytes that begin like a file of that format.
Tensor decode_jpeg(std::span<const std::byte> bytes, const std::string& name);
Tensor decode_png(std::span<const std::byte> bytes, const std::string& name);

/// Throws IoError for a picture without pixels, or with more pixels than image.h allows.
inline void check_image_size(std::int64_t height, std::int64_t width, const std::string& name) {
  require<IoError>(height > 0 && width > 0 && height <= max_image_side && width <= max_image_side &&
                       height * width <= max_image_pixels,
                   name, ": a picture of ", height, " x ", width, " pixels, but there may be 1 to ",
                   max_image_pixels, " of them, ", max_image_side, " a side");
}

}  // namespace rondo::data
