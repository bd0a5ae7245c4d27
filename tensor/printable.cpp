#include "tensor/printable.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>

namespace rondo {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: invalid UTF-8
};

/// The first character of a text that is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const std::size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = byte(0) & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_valid =
      code >= smallest[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return is_valid ? Character{code, bytes} : Character{};
}

bool is_obeyed(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||  // C0, DEL, C1
         code == 0x061c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) ||  // ends of lines and paragraphs, directions
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text, std::string_view keep) {
  std::string shown;
  shown.reserve(text.size());
  auto escape = [&](const char* format, std::uint32_t value) {
    char escaped[16];
    std::snprintf(escaped, sizeof escaped, format, value);
    shown += escaped;
  };
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    if (bytes == 0) {
      escape("\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (!is_obeyed(code) || keep.find(text[0]) != std::string_view::npos) {
      shown += text.substr(0, bytes);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      shown += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else {
      escape(code < 0x80 ? "\\x%02x" : "\\u%04x", code);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./,:=@%+").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace rondo
