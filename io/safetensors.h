#pragma once
// safetensors: a file of named tensors, as PyTorch, JAX and the model hubs exchange them.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"__metadata__": {"key": "text", …},
//                    "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//   data      the elements, row-major, little-endian, one tensor after the other without gaps
//
// The format is https://github.com/huggingface/safetensors; Python's `safetensors` reads what is
// written here, and the other way round. The reader trusts nothing: every offset, size and count is
// checked before it is used, so any bytes at all give tensors or an IoError.
//
// Note [The checksum of a file]
// The first metadata entry that rondo writes, always at the same place, is "rondo.sha256": the hash
// of the whole file with these 64 digits taken as zeros. Other readers see one more metadata entry;
// rondo's verifies it while it reads, so a flipped bit anywhere is noticed. A line feed before the
// entry, where no other writer puts one, says that the file is as rondo wrote it: a program that
// copies the metadata of a file into one of its own copies the entry, too, of which then nothing is
// true. Files without the entry at that place are read unverified.

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
  std::map<std::string, std::string> metadata;  // without the checksum
  bool verified = false;                        // there was a checksum, and it is right
  std::vector<LeftOut> left_out;                // tensors that were not read
};

/// Reads a file. A tensor of a dtype that rondo lacks gets one that has the same values
/// (io/stored_type.h), or is left out. Throws IoError naming the file and what is wrong with it:
/// missing, cut short, a header that is too large or no JSON, a key that comes twice, offsets that
/// overlap, leave gaps or do not fit the shape, a wrong checksum; also if no tensor can be read.
/// Takes at most 32 bytes of memory for each of the file's, and 1 MiB.
Safetensors load_safetensors(const std::string& path);

namespace detail {
/// The same of a file that may hold only tensors that cannot be read, as one of several parts may.
Safetensors load_part(const std::string& path);
/// Throws IoError if something was left out and nothing was read.
void require_tensors(const nn::StateDict& tensors, const std::vector<LeftOut>& left_out,
                     const std::string& file);
}  // namespace detail
/// The metadata alone; the data is not read, nor the checksum verified.
std::map<std::string, std::string> load_safetensors_metadata(const std::string& path);
/// The same for a file's bytes in memory; `name` is what errors call it.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// Writes tensors of any layout, atomically (io/atomic_file.h). Throws IoError when that fails or
/// two tensors have one name; the file that was there before is then still there.
void save_safetensors(const std::string& path, const nn::StateDict& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace rondo::io
