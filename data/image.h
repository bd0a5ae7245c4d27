#pragma once
// Pictures in files: JPEG and PNG become bytes, u8 (H, W, 3), as PIL's
// Image.open(file).convert("RGB") has them, which is what torchvision's data sets read with.
//
// What a file is, its first bytes say, not its name. Grey becomes three equal channels, a palette
// is looked up, transparency is dropped (not blended), CMYK becomes RGB by PIL's rule, and nothing
// is turned as EXIF says, nor its gamma or colour profile applied. Of 16 bits a channel the upper
// eight are kept (PIL clips 16-bit grey to 255 instead; docs/decisions.md).
//
// Files come from anywhere, so nothing in them is believed: the size that a header declares is
// checked before anything is allocated, and libjpeg's and libpng's own memory is bounded.
//
// Needs libjpeg and libpng (RONDO_IMAGES); without them every call is an Error that says so.
//
// Read next: data/jpeg.cpp, data/png.cpp, data/image_ops.h.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace rondo::data {

/// Pixels (width × height) that a picture may have at most: where PIL takes one for an attack. So
/// pixels take at most 537 MB (716 MB while grey or a palette is made RGB). A decoder's own memory
/// is bounded besides: 64 MiB and 8 bytes a declared pixel in libjpeg (coefficients of progressive
/// files), 32 MiB in libpng. A PNG file that could not hold the pixels it declares is refused
/// before any are allocated (deflate makes at most 1,032 bytes of one); a JPEG file has no such
/// bound.
inline constexpr std::int64_t max_image_pixels = 178'956'970;
/// Pixels that either side may have at most.
inline constexpr std::int64_t max_image_side = std::int64_t{1} << 18;
/// Bytes that a file of one picture may have at most: 1 GiB.
inline constexpr std::int64_t max_image_bytes = std::int64_t{1} << 30;

/// Whether rondo was built with libjpeg and libpng.
bool has_image_decoders();

/// The picture in `bytes`, u8 (H, W, 3), contiguous. `name` is what errors call it. Throws IoError:
/// neither JPEG nor PNG, larger than allowed above, cut short, or so damaged that pixels are lost.
/// Odd but harmless things (bytes between JPEG markers, damaged comments) are passed over.
Tensor decode_image(std::span<const std::byte> bytes, const std::string& name);

/// decode_image of a whole file (torchvision.io.decode_image, except for the order of dimensions).
/// Throws IoError naming the file also when it is missing, no file, or larger than max_image_bytes.
Tensor read_image(const std::filesystem::path& file);

}  // namespace rondo::data
