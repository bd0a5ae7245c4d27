// JPEG files. A block of 64 pixels may take less than a bit, so memory is bounded only by the
// declared pixels. Images of more than a quarter of a million pixels are skipped, because they only
// cost time.
#include <algorithm>

#include "data/image.h"
#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3 || data[0] != 0xff || data[1] != 0xd8 || data[2] != 0xff) return -1;
  std::size_t pixels = 0;  // the largest size in all bytes that could be a frame header
  for (std::size_t i = 0; i + 8 < size; ++i) {
    if (data[i] != 0xff || (data[i + 1] & 0xf0) != 0xc0) continue;
    const std::size_t height = data[i + 5] << 8 | data[i + 6],
                      width = data[i + 7] << 8 | data[i + 8];
    pixels = std::max(pixels, height * width);
  }
  if (pixels > 1 << 18) return -1;
  return fuzz::hold_at_most(64 * fuzz::mib + 16 * pixels + fuzz::mib,
                            [&] { data::decode_image(fuzz::bytes_of(data, size), "fuzz"); });
}
