#pragma once
// The index of a safetensors file in several parts, model.safetensors.index.json. It names the part
// ("shard") that each tensor is in. Internal to io/.
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
  std::vector<std::pair<std::string, std::string>> shard_of;  // tensor to file, in text order
  std::map<std::string, std::string> metadata;
};

/// Throws IoError "FILE: …" if the text is not JSON or has no weight_map, if a tensor appears
/// twice, or if the name of a shard is not the name of a file in the same folder.
SafetensorsIndex parse_index(std::string_view text, const std::string& file);

/// The JSON of an index. The metadata's total_size is a number.
std::string index_text(const SafetensorsIndex& index);

}  // namespace rondo::io::detail
