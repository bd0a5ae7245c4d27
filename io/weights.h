#pragma once
// Weights from wherever they come: one call for all kinds of files.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/left_out.h"
#include "nn/module.h"

namespace rondo::io {

struct WeightsFile {
  nn::StateDict tensors;
  std::map<std::string, std::string> metadata;  // other texts of the file
  std::string entry;                            // the dict of a file of torch.save's that was read
  std::vector<LeftOut> left_out;                // tensors that were not read
};

/// Reads a .safetensors file, the index of one in several parts (model.safetensors.index.json, with
/// the parts next to it), or a file of torch.save's, told apart by what is inside. `entry` says
/// which dict of a file of torch.save's is meant (extras/torch_files/torch_pickle.h). Throws
/// IoError, for other kinds of files with what they are and what to do: an HTML page, a pointer of
/// Git LFS, an archive. Also where a part is missing, or a tensor is not in the part that the index
/// says.
WeightsFile read_weights(const std::string& path, const std::string& entry = "");
/// Its tensors alone.
nn::StateDict load_weights(const std::string& path, const std::string& entry = "");

/// A format of weights next to safetensors. A program that includes its header can read and write
/// it (extras/torch_files/torch_pickle.h registers PyTorch's; rondo/rondo.h includes it).
struct WeightsFormat {
  /// Judged by a file's first 512 bytes.
  bool (*is_one)(std::string_view first);
  WeightsFile (*read)(const std::string& path, const std::string& entry);
  /// The endings of names that save_weights writes in this format: {".pth", ".pt"}.
  std::vector<std::string> endings;
  void (*write)(const std::string& path, const nn::StateDict& tensors);
};
/// Returns true, so that it can initialise an inline variable of the header. Before main or on one
/// thread.
bool register_weights_format(WeightsFormat format);

/// Whether a file is one of safetensors, in one part, and not another that read_weights reads.
/// Throws IoError as that does.
bool is_safetensors_file(const std::string& path);

/// Writes a state dict in the form that the name asks for: .safetensors, or .pth and .pt for
/// PyTorch. A .safetensors file gets the metadata, and "format": "pt" where that says nothing else:
/// some readers want to know whose layouts of weights these are. Throws IoError, also for any other
/// name.
void save_weights(const std::string& path, const nn::StateDict& tensors,
                  std::map<std::string, std::string> metadata = {});

}  // namespace rondo::io
