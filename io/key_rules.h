#pragma once
// KeyRules: what the tensors of a file are called in a model of rondo's, where its authors chose
// other names, and which of them are not for it.
//
//   // "module." of PyTorch's DataParallel; another last layer than the model's
//   const io::KeyRules rules{.rename = {{"^module\\.", ""}}, .ignore = {"^fc\\."}};
//   net.load_state_dict(io::apply(rules, io::load_weights(path)), {.strict = false});

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace rondo::io {

/// Bytes that a key may have at most where there are rules: std::regex takes stack for each.
inline constexpr std::size_t max_ruled_key = 2048;

struct KeyRules {
  /// (regular expression, what stands in its place), one after the other, for each key. ECMAScript,
  /// searched in the key; $1 is what the first parentheses have caught.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// Keys, as renamed, in which one of these regular expressions is found are left out.
  std::vector<std::string> ignore = {};
};

/// The state dict under the rules; the tensors are shared. Throws Error naming a rule that is no
/// regular expression, and two keys that have become one; IoError for a key, as it is or becomes,
/// that is longer than max_ruled_key, as no model has one.
nn::StateDict apply(const KeyRules& rules, const nn::StateDict& state);

}  // namespace rondo::io
