#pragma once
// Picture files: decodes JPEG and PNG to bytes, u8 (H, W, 3), equal to PIL's
// Image.open(file).convert("RGB"), with which torchvision's data sets read.
//
// The first bytes of a file decide its format, not its name. Grey becomes three equal channels,
// palettes are resolved, transparency is dropped (not blended), CMYK becomes RGB by PIL's rule.
// EXIF rotation, gamma and colour profiles are ignored. Of 16 bits per channel the upper eight are
// kept (PIL clips 16-bit grey to 255 instead; docs/decisions.md).
//
// Files may come from untrusted sources, so their contents are checked: the size that a header
// declares is checked before anything is allocated, and the memory that libjpeg and libpng use is
// bounded.
//
// Needs libjpeg and libpng (RONDO_IMAGES). Without them, every call throws an Error that says so.
//
// Read next: data/jpeg.cpp, data/png.cpp, data/image_ops.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace rondo::data {

/// The most pixels (width × height) that a picture may have: PIL's limit, above which it assumes an
/// attack. So pixels take at most 537 MB (716 MB while grey or a palette is converted to RGB). A
/// decoder's own memory is bounded, too: 64 MiB plus 8 bytes for each declared pixel in libjpeg
/// (coefficients of progressive files), 32 MiB in libpng. A PNG file that is too small for the
/// pixels it declares is refused before any memory is allocated (deflate expands a byte to at most
/// 1,032 bytes); JPEG has no such bound.
inline constexpr std::int64_t max_image_pixels = 178'956'970;
/// The most pixels that either side may have.
inline constexpr std::int64_t max_image_side = std::int64_t{1} << 18;
/// The most bytes that a picture file may have: 1 GiB.
inline constexpr std::int64_t max_image_bytes = std::int64_t{1} << 30;

/// Whether rondo was built with libjpeg and libpng.
bool has_image_decoders();

/// The picture in `bytes`, u8 (H, W, 3), contiguous. Errors call it `name`. Throws IoError if the
/// bytes are neither JPEG nor PNG, if the picture is larger than the limits above or truncated, or
/// if damage has destroyed pixels. Harmless defects (bytes between JPEG markers, damaged comments)
/// are ignored.
Tensor decode_image(std::span<const std::byte> bytes, const std::string& name);

/// decode_image for a whole file (torchvision.io.decode_image, except for the order of dimensions).
/// Also throws IoError, naming the file, if it is missing, not a regular file, or larger than
/// max_image_bytes.
Tensor read_image(const std::string& file);

}  // namespace rondo::data
