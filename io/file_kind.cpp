#include "io/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>

#include "io/safetensors_header.h"

namespace rondo::io::detail {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view begin;
  const char* meaning;
};
constexpr Magic magics[] = {
    {"version https://git-lfs.github.com/spec/"sv,
     "is a Git LFS pointer, not the file itself; get the file with: git lfs pull"},
    {"\x1f\x8b"sv, "is compressed with gzip; unpack it first: gunzip FILE.gz"},
    {"\xfd"
     "7zXZ\0"sv,
     "is compressed with xz; unpack it first: xz -d FILE.xz"},
    {"BZh"sv, "is compressed with bzip2; unpack it first: bzip2 -d FILE.bz2"},
    {"\x28\xb5\x2f\xfd"sv, "is compressed with zstd; unpack it first: zstd -d FILE.zst"},
    {"GGUF"sv, "is a GGUF file of llama.cpp; download the model's safetensors file"},
    {"\x89HDF\r\n\x1a\n"sv,
     "is an HDF5 file, as Keras writes them; io::load_hdf5 reads its tensors"},
    {"\x93NUMPY"sv, "is a NumPy array; io::load_npy reads it"},
    {"\x89PNG"sv, "is a PNG image; data::read_image reads it"},
    {"\xff\xd8\xff"sv, "is a JPEG image; data::read_image reads it"},
};

/// Whether these bytes can be the start of a header that the format allows.
bool may_be_safetensors(std::string_view text) {
  std::uint64_t length = 0;
  if (text.size() <= sizeof length) return false;
  std::memcpy(&length, text.data(), sizeof length);
  return length <= max_header_bytes && text[sizeof length] == '{';
}

bool is_torch_legacy(std::string_view text) {
  constexpr std::size_t most_before_magic = 32;  // bytes that the pickle protocol puts before it
  return text.starts_with('\x80') &&
         text.substr(0, most_before_magic).find(torch_legacy_magic) != std::string_view::npos;
}

bool is_html(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\xef\xbb\xbf"), text.size()));
  return std::ranges::any_of(std::array{"<!doctype"sv, "<html"sv, "<head"sv, "<?xml"sv, "<!--"sv},
                             [&](std::string_view tag) {
                               return text.size() >= tag.size() &&
                                      std::ranges::equal(
                                          tag, text.substr(0, tag.size()), {}, {},
                                          [](unsigned char c) { return std::tolower(c); });
                             });
}

/// Whether the first file of a zip archive is an array.
bool is_numpy_archive(std::string_view text) {
  constexpr std::size_t length_at = 26, name_at = 30;
  if (text.size() < name_at) return false;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::size_t length = byte(length_at) | byte(length_at + 1) << 8;
  return text.substr(name_at, length).ends_with(".npy");
}

bool is_plain_text(std::string_view text) {
  return text.size() >= 8 && std::ranges::all_of(text, [](unsigned char c) {
           return std::isprint(c) != 0 || std::isspace(c) != 0;
         });
}

bool is_tar(std::string_view text) { return text.size() >= 262 && text.substr(257, 5) == "ustar"; }

/// PyTorch's format before 0.1.10: a tar archive of these files.
bool is_torch_tar(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('\0'));
  return std::ranges::any_of(std::array{"sys_info"sv, "pickle"sv, "tensors"sv, "storages"sv},
                             [&](std::string_view known) { return name == known; });
}

}  // namespace

FileKind kind_of(std::string_view text) {
  if (may_be_safetensors(text)) return FileKind::safetensors;
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) return FileKind::torch_zip;
  if (is_torch_legacy(text)) return FileKind::torch_legacy;
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && text[at] == '{' ? FileKind::json : FileKind::other;
}

std::string other_kind(std::string_view text) {
  switch (kind_of(text)) {
    case FileKind::torch_zip:
      if (is_numpy_archive(text)) return "is a NumPy archive (.npz); io::load_npz reads it";
      [[fallthrough]];
    case FileKind::torch_legacy:
      return "is a torch.save file; io::load_weights and io::load_torch read it (include "
             "<rondo/rondo.h> or <rondo/extras/torch_files/torch_pickle.h>)";
    case FileKind::json:
      return "is JSON text; if it is the index of a safetensors file in several parts, "
             "io::load_weights reads it";
    case FileKind::safetensors:
      return {};
    case FileKind::other:
      break;
  }
  for (const Magic& magic : magics)
    if (text.starts_with(magic.begin)) return magic.meaning;
  if (is_html(text))
    return "is an HTML page, as a server sends it for a login or an error; download the file "
           "itself";
  if (is_tar(text))
    return is_torch_tar(text)
               ? "is a tar archive as PyTorch before 0.1.10 wrote them; load it in Python, and "
                 "torch.save its state_dict again"
               : "is a tar archive; unpack it first: tar xf FILE";
  if (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return "is a pickle that torch.save did not write; load it in Python, and torch.save its "
           "tensors";
  return is_plain_text(text) ? "is a text file; it has no tensors" : "";
}

}  // namespace rondo::io::detail
