#pragma once
// The header of a safetensors file: parses JSON text into checked entries, and formats it. Internal
// to io/.

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
  DType dtype = DType::f32;  // rondo's, like the shape; `stored` is the type in the file
  Dims shape;
  const StoredType* stored = nullptr;
  std::string left_out;              // the reason; empty if it is read
  std::uint64_t begin = 0, end = 0;  // bytes from the start of the data
};

struct Header {
  std::vector<HeaderEntry> entries;  // in the order of the text
  std::map<std::string, std::string> metadata;
};

/// The maximum that the format allows.
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

/// The header of a file written by rondo begins with this prefix, followed by 64 digits (Note [The
/// checksum of a file]).
inline constexpr std::string_view checksum_prefix = "{\"__metadata__\":{\n\"rondo.sha256\":\"";
inline constexpr const char* checksum_key = "rondo.sha256";
inline constexpr std::size_t checksum_digits = 64;

/// Throws IoError "FILE: …" unless `text` is a valid header whose tensors fill exactly `data_bytes`
/// bytes.
Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file);

/// The text for these entries: the checksum is all zeros, and spaces pad the text to a multiple of
/// 8.
std::string format_header(const Header& header);

}  // namespace rondo::io::detail
