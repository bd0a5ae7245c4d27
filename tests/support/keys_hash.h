#pragma once

#include <cstdint>
#include <string>

#include "nn/module.h"

namespace rondo::test {

/// FNV-1a of the names and shapes in the state dict, as in make_zoo.py.
inline std::int64_t keys_hash(nn::Module& model) {
  std::uint64_t h = 0xCBF29CE484222325;
  for (const auto& [key, tensor] : model.state_dict()) {
    std::string line = key + "[";
    for (std::int64_t d = 0; d < tensor.dim(); ++d)
      line += concat(d > 0 ? ", " : "", tensor.size(d));
    for (const char byte : line + "]\n") h = (h ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  }
  return static_cast<std::int64_t>(h);
}

}  // namespace rondo::test
