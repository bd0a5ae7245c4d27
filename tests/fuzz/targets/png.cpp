// PNG files whose chunk checksums are corrected, so that libpng reads further.
#include <cstring>

#include "data/image.h"
#include "fuzz/targets/fuzz.h"
#include "support/png_checksums.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8 || std::memcmp(data, "\x89PNG\r\n\x1a\n", 8) != 0) return -1;
  const std::string png = test::with_checksums(fuzz::text_of(data, size));
  // A bit may be a pixel of one byte, later of three. Deflate expands a byte to at most 1032 bytes.
  return fuzz::hold_at_most(32 * fuzz::mib + std::size_t{8 * 4 * 1032} * size,
                            [&] { data::decode_image(std::as_bytes(std::span(png)), "fuzz"); });
}
