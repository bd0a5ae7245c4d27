#pragma once
// Weights from files of all supported formats, with one call.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/left_out.h"
#include "nn/module.h"

namespace rondo::io {

struct WeightsFile {
  nn::StateDict tensors;
  std::map<std::string, std::string> metadata;  // other texts in the file
  std::vector<std::string> others = {};         // keys of values that are neither tensors nor texts
  std::string entry;                            // for a torch.save file: the dict that was read
  std::vector<LeftOut> left_out;                // tensors that were not read
};

/// Reads a .safetensors file, the index of one in several parts (model.safetensors.index.json, with
/// the parts in the same folder), or a torch.save file. Recognises the format by the contents, not
/// by the name. `entry` selects the dict in a torch.save file (extras/torch_files/torch_pickle.h).
/// Throws IoError if a part is missing, or if a tensor is not in the part that the index names. For
/// other kinds of files (an HTML page, a Git LFS pointer, an archive) the IoError names the kind
/// and what to do.
WeightsFile read_weights(const std::string& path, const std::string& entry = "");
/// Like read_weights, but returns only the tensors.
nn::StateDict load_weights(const std::string& path, const std::string& entry = "");

/// A format of weights in addition to safetensors. A program that includes the header of a format
/// can read and write it (extras/torch_files/torch_pickle.h registers PyTorch's; rondo/rondo.h
/// includes it).
struct WeightsFormat {
  /// Whether a file is in this format, given its first 512 bytes.
  bool (*is_one)(std::string_view first);
  WeightsFile (*read)(const std::string& path, const std::string& entry);
  /// save_weights writes files with these extensions in this format: {".pth", ".pt"}.
  std::vector<std::string> endings;
  void (*write)(const std::string& path, const nn::StateDict& tensors);
};
/// Returns true, so that it can initialise an inline variable in the header. Call it before main or
/// while there is one thread.
bool register_weights_format(WeightsFormat format);

/// Whether a file is a safetensors file in one part, not another format that read_weights reads.
/// Throws IoError as read_weights does.
bool is_safetensors_file(const std::string& path);

/// Writes a state dict in the format that the file extension selects: .safetensors, or .pth and .pt
/// for PyTorch. A .safetensors file gets the metadata, plus "format": "pt" unless the metadata has
/// a "format": some readers need to know whose layout the weights have. Throws IoError, also for
/// any other extension.
void save_weights(const std::string& path, const nn::StateDict& tensors,
                  std::map<std::string, std::string> metadata = {});

/// Writes a state dict in several .safetensors files, of at most max_shard_size bytes of tensors
/// each, and the index `path`, which read_weights reads: "model.safetensors.index.json" is the
/// index of "model-00001-of-00002.safetensors" and so on in the same folder, as Hugging Face names
/// them. A tensor that is larger has a file of its own. An old index is removed first
/// and the new one is written last, so that an interrupted call leaves none; files of an earlier
/// call that it does not name stay. Throws IoError if two tensors have the same name, if
/// `path` does not end with ".safetensors.index.json" or if a file cannot be written, and Error if
/// max_shard_size is below 1.
void save_weights_sharded(const std::string& path, const nn::StateDict& tensors,
                          std::int64_t max_shard_size = 5'000'000'000);

}  // namespace rondo::io
