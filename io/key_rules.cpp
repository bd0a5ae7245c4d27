#include "io/key_rules.h"

#include <map>
#include <regex>

#include "tensor/error.h"

namespace rondo::io {
namespace {

std::regex compiled(const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw Error(
        concat("the rule \"", text, "\" for keys is not a regular expression: ", error.what()));
  }
}

void check_length(const std::string& key) {
  require<IoError>(key.size() <= max_ruled_key, "a key of ", key.size(),
                   " bytes, and rules are for keys of ", max_ruled_key, " at most: \"",
                   key.substr(0, 60), "…\"");
}

}  // namespace

nn::StateDict apply(const KeyRules& rules, const nn::StateDict& state) {
  std::vector<std::pair<std::regex, std::string>> renames;
  for (const auto& [from, to] : rules.rename) renames.emplace_back(compiled(from), to);
  std::vector<std::regex> ignored;
  for (const std::string& text : rules.ignore) ignored.push_back(compiled(text));

  nn::StateDict result;
  std::map<std::string, std::string> origins;
  for (const nn::NamedTensor& entry : state) {
    std::string name = entry.name;
    if (!renames.empty() || !ignored.empty()) check_length(name);
    for (const auto& [from, to] : renames) {
      name = std::regex_replace(name, from, to);
      check_length(name);
    }
    bool is_taken = true;
    for (const std::regex& each : ignored) is_taken = is_taken && !std::regex_search(name, each);
    if (!is_taken) continue;
    const auto [other, is_new] = origins.emplace(name, entry.name);
    require(is_new, "the rules for keys make \"", name, "\" of both \"", other->second, "\" and \"",
            entry.name, "\"");
    result.push_back({name, entry.tensor});
  }
  return result;
}

}  // namespace rondo::io
