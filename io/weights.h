#pragma once
// Weights from wherever they come: one call for all kinds of files.

#include <map>
#include <string>

#include "nn/module.h"

namespace rondo::io {

/// The tensors of a .safetensors file or of one of torch.save's, told apart by what is inside.
/// `entry` says which dict of a file of torch.save's is meant (io/torch_pickle.h). Throws IoError.
nn::StateDict load_weights(const std::string& path, const std::string& entry = "");

/// Writes a state dict in the form that the name asks for: .safetensors, or .pth and .pt for
/// PyTorch. A .safetensors file gets the metadata, and "format": "pt" where that says nothing else:
/// some readers want to know whose layouts of weights these are. Throws IoError, also for any other
/// name.
void save_weights(const std::string& path, const nn::StateDict& tensors,
                  std::map<std::string, std::string> metadata = {});

}  // namespace rondo::io
