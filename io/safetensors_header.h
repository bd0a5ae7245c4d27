#pragma once
// The header of a safetensors file: JSON text to checked entries and back. Internal to io/.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/stored_type.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rondo::io::detail {

struct HeaderEntry {
  std::string name;
  DType dtype = DType::f32;  // rondo's, as is the shape; `stored` is how the file has the elements
  Dims shape;
  const StoredType* stored = nullptr;
  std::string left_out;              // the reason; empty: it is read
  std::uint64_t begin = 0, end = 0;  // bytes from the start of the data
};

struct Header {
  std::vector<HeaderEntry> entries;  // in the order of the text
  std::map<std::string, std::string> metadata;
};

/// What the format allows at most.
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

/// Note [The checksum of a file]: the header of a file written by rondo begins with this, then come
/// 64 digits.
inline constexpr std::string_view checksum_prefix = "{\"__metadata__\":{\n\"rondo.sha256\":\"";
inline constexpr const char* checksum_key = "rondo.sha256";
inline constexpr std::size_t checksum_digits = 64;

/// Throws IoError "FILE: …" unless `text` is a header whose tensors fill `data_bytes` bytes
/// exactly.
Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file);

/// The text for these entries, the checksum all zeros, padded with spaces to a multiple of 8.
std::string format_header(const Header& header);

}  // namespace rondo::io::detail
