#pragma once
// What a file is, by its first bytes: one of weights, or something else that people take for one.
// Internal to io/.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rondo::io::detail {

enum class FileKind {
  safetensors,
  torch_zip,     // torch.save's form since PyTorch 1.6, or another zip archive
  torch_legacy,  // its form before
  json,          // may be the index of a safetensors file in several parts
  other,
};

/// How many of a file's bytes the functions here look at.
inline constexpr std::size_t first_bytes = 512;

FileKind kind_of(std::string_view first);

/// The number 0x1950a86a20f9469cfc6c, as the first pickle of torch.save's older form holds it.
inline constexpr std::string_view torch_legacy_magic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");

/// What a reader of another kind says of such a file: "is an HTML page, …", with what to do about
/// it. Empty: a safetensors file, or one that is not known.
std::string other_kind(std::string_view first);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace rondo::io::detail
