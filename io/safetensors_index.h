#pragma once
// The index of a safetensors file in several parts, model.safetensors.index.json: which part
// ("shard") each tensor is in. Internal to io/.
//
//   {"metadata": {"total_size": 28966928384},
//    "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors", …}}

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::io::detail {

struct SafetensorsIndex {
  std::vector<std::pair<std::string, std::string>> shard_of;  // tensor to file, in the text's order
  std::map<std::string, std::string> metadata;
};

/// Throws IoError "FILE: …" for what is not JSON or has no such map, for a tensor that comes twice,
/// and for a shard whose name is not that of a file in the same folder.
SafetensorsIndex parse_index(std::string_view text, const std::string& file);

}  // namespace rondo::io::detail
