#pragma once
// Recognises by its first bytes what a file is: a file of weights, or another kind that people
// often mistake for one. Internal to io/.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rondo::io::detail {

enum class FileKind {
  safetensors,
  torch_zip,     // torch.save's format since PyTorch 1.6, or another zip archive
  torch_legacy,  // torch.save's format before that
  json,          // may be the index of a safetensors file in several parts
  other,
};

/// The functions here look at this many bytes of a file.
inline constexpr std::size_t first_bytes = 512;

FileKind kind_of(std::string_view first);

/// The number 0x1950a86a20f9469cfc6c, as encoded in the first pickle of torch.save's older format.
inline constexpr std::string_view torch_legacy_magic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");

/// A description of a file that is not a safetensors file, for error messages, with what to do
/// about it: "is an HTML page, …". Empty for a safetensors file and for an unknown kind.
std::string other_kind(std::string_view first);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace rondo::io::detail
