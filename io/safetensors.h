#pragma once
// safetensors: a file of named tensors, the format that PyTorch, JAX and the model hubs exchange.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"__metadata__": {"key": "text", …},
//                    "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//   data      the elements, row-major, little-endian, one tensor after the other without gaps
//
// Specification: https://github.com/huggingface/safetensors. Python's `safetensors` reads files
// written here, and rondo reads files written by it. The reader trusts nothing: it checks every
// offset, size and count before it uses it, so any input gives tensors or an IoError.
//
// Note [The checksum of a file]
// The first metadata entry that rondo writes, always at the same place, is "rondo.sha256": the hash
// of the whole file, computed with these 64 digits set to zero. Other readers see one more metadata
// entry. rondo verifies the hash while it reads, so it notices a flipped bit anywhere.
// A line feed before the entry, which no other writer puts there, marks a file that rondo wrote. A
// program that copies the metadata of a file into a file of its own also copies this entry, but
// then the hash is wrong for the new file. Files without the entry at that place are read without
// verification.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/left_out.h"
#include "nn/module.h"

namespace rondo::io {

struct Safetensors {
  nn::StateDict tensors;                        // in the order of the header
  std::map<std::string, std::string> metadata;  // without the checksum entry
  bool verified = false;                        // the file has a checksum, and it is correct
  std::vector<LeftOut> left_out;                // tensors that were not read
};

/// Reads a file. A tensor of a dtype that rondo lacks is converted to a dtype with the same values
/// (io/stored_type.h), or is left out. Throws IoError naming the file and the fault: the file is
/// missing or truncated; the header is too large or not JSON; a key appears twice; offsets overlap,
/// leave gaps or do not fit the shape; the checksum is wrong; or no tensor can be read.
/// Uses at most 32 bytes of memory for each byte of the file, plus 1 MiB.
Safetensors load_safetensors(const std::string& path);

namespace detail {
/// Like load_safetensors, but none of the tensors need be readable: the file may be one of several
/// parts.
Safetensors load_part(const std::string& path);
/// Throws IoError if tensors were left out and none was read.
void require_tensors(const nn::StateDict& tensors, const std::vector<LeftOut>& left_out,
                     const std::string& file);
}  // namespace detail
/// Reads only the metadata; does not read the data or verify the checksum.
std::map<std::string, std::string> load_safetensors_metadata(const std::string& path);
/// Like load_safetensors, for a file's bytes in memory; error messages call it `name`.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// Writes tensors of any layout, atomically (io/atomic_file.h). Throws IoError if that fails or if
/// two tensors have the same name; the previous file then stays.
void save_safetensors(const std::string& path, const nn::StateDict& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace rondo::io
