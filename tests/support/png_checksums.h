#pragma once
// PNG files that were changed, with corrected checksums.

#include <cstdint>
#include <string>

namespace rondo::test {

/// Corrects the checksums of all chunks, so that libpng reads further.
inline std::string with_checksums(std::string png) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<std::uint8_t>(png[i])}; };
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t length =
        byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (length > png.size() - at - 12) break;
    std::uint32_t crc = 0xFFFFFFFF;
    for (std::size_t i = at + 4; i < at + 8 + length; ++i) {
      crc ^= byte(i);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
    }
    for (std::size_t i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<char>(~crc >> (24 - 8 * i));
    at += 12 + length;
  }
  return png;
}

}  // namespace rondo::test
