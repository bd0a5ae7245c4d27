#pragma once
// A zip archive with one file whose sizes and offset are in Zip64's fields, as for files of 4 GiB:
// the bytes before the file's contents and the bytes after them.

#include <zlib.h>

#include <cstdint>
#include <string>

namespace rondo::test {

struct Zip64 {
  std::string head, tail;
};

/// `bits` / 8 bytes, little-endian.
inline std::string little_endian(std::uint64_t value, int bits) {
  std::string bytes;
  for (int shift = 0; shift < bits; shift += 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

/// The archive around `bytes` bytes with this checksum.
inline Zip64 zip64_around(const std::string& name, std::uint64_t bytes, std::uint32_t crc) {
  auto u16 = [](std::uint64_t value) { return little_endian(value, 16); };
  auto u32 = [](std::uint64_t value) { return little_endian(value, 32); };
  auto u64 = [](std::uint64_t value) { return little_endian(value, 64); };
  const std::string see_extra(4, '\xff');
  // Version 4.5, no flags, stored, no date.
  const std::string common =
      u16(45) + u16(0) + u16(0) + u32(0) + u32(crc) + see_extra + see_extra + u16(name.size());
  const std::string sizes = u64(bytes) + u64(bytes);
  Zip64 zip;
  zip.head = "PK\x03\x04" + common + u16(20) + name + u16(1) + u16(16) + sizes;
  const std::string entry = "PK\x01\x02" + u16(45) + common + u16(28) + u16(0) + u16(0) + u16(0) +
                            u32(0) + see_extra + name + u16(1) + u16(24) + sizes + u64(0);
  const std::uint64_t directory = zip.head.size() + bytes;
  const std::string end64 = "PK\x06\x06" + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(1) +
                            u64(1) + u64(entry.size()) + u64(directory);
  zip.tail = entry + end64 + "PK\x06\x07" + u32(0) + u64(directory + entry.size()) + u32(1) +
             "PK\x05\x06" + u16(0) + u16(0) + u16(1) + u16(1) + u32(entry.size()) + see_extra +
             u16(0);
  return zip;
}

/// The checksum of this many zeros.
inline std::uint32_t crc_of_zeros(std::uint64_t bytes) {
  uLong all = 0, power = crc32(0, reinterpret_cast<const Bytef*>("\0"), 1);
  std::uint64_t length = 1;  // the number of zeros that `power` is the checksum of
  for (std::uint64_t rest = bytes; rest > 0; rest /= 2) {
    if (rest % 2 != 0) all = crc32_combine(all, power, static_cast<z_off_t>(length));
    power = crc32_combine(power, power, static_cast<z_off_t>(length));
    length *= 2;
  }
  return static_cast<std::uint32_t>(all);
}

}  // namespace rondo::test
