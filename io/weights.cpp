#include "io/weights.h"

#include "io/safetensors.h"
#include "io/torch_pickle.h"
#include "tensor/error.h"

namespace rondo::io {

nn::StateDict load_weights(const std::string& path, const std::string& entry) {
  if (is_torch_file(path)) return load_torch(path, {.entry = entry}).tensors;
  require<IoError>(entry.empty(), path, " is no file of torch.save's; it has no entry ", entry);
  return load_safetensors(path).tensors;
}

void save_weights(const std::string& path, const nn::StateDict& tensors,
                  std::map<std::string, std::string> metadata) {
  if (path.ends_with(".safetensors")) {
    metadata.emplace("format", "pt");
    return save_safetensors(path, tensors, metadata);
  }
  require<IoError>(path.ends_with(".pth") || path.ends_with(".pt"), path,
                   ": what is to be written? Names end in .safetensors, .pth or .pt");
  save_torch(path, tensors);
}

}  // namespace rondo::io
