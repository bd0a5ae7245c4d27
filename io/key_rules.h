#pragma once
// KeyRules: renames the tensors of a file to the names that a rondo model uses, and leaves out
// tensors that the model does not need.
//
//   // strip the prefix "module." of PyTorch's DataParallel; leave out the last layer
//   const io::KeyRules rules{.rename = {{"^module\\.", ""}}, .ignore = {"^fc\\."}};
//   net.load_state_dict(io::apply(rules, io::load_weights(path)), {.strict = false});

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace rondo::io {

/// The maximum length of a key in bytes if there are rules, because std::regex uses stack for each
/// byte.
inline constexpr std::size_t max_ruled_key = 2048;

struct KeyRules {
  /// (regular expression, replacement). All are applied to each key, one after the other.
  /// ECMAScript syntax; the expression is searched in the key; $1 is the first captured group.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// Leaves out each key (after renaming) in which one of these regular expressions matches.
  std::vector<std::string> ignore = {};
};

/// Applies the rules to a state dict; the result shares the tensors. Throws Error naming a rule
/// that is not a regular expression, and Error if two keys get the same name. Throws IoError for a
/// key that is longer than max_ruled_key, before or after renaming; no model has such keys.
nn::StateDict apply(const KeyRules& rules, const nn::StateDict& state);

}  // namespace rondo::io
