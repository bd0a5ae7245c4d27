#include "nn/select.h"

#include <fnmatch.h>

#include "tensor/error.h"

namespace rondo::nn {

bool matches(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

namespace {

[[noreturn]] void nothing_matches(Module& module, const char* what, const std::string& pattern) {
  const auto all = module.named_parameters();
  std::string some;
  for (std::size_t i = 0; i < all.size() && i < 3; ++i) some += (i > 0 ? ", " : "") + all[i].name;
  throw Error(concat(what, ": no parameter's name matches \"", pattern, "\"; the names are ",
                     all.empty() ? "none" : some, all.size() > 3 ? ", …" : ""));
}

Tensors trained(Module& module, const std::string& pattern, bool like) {
  Tensors found;
  for (const NamedTensor& p : module.named_parameters()) {
    if (matches(p.name, pattern) == like && p.tensor.requires_grad()) found.push_back(p.tensor);
  }
  if (found.empty() && like) nothing_matches(module, "parameters_like", pattern);
  require(!found.empty(), "parameters_unlike: every parameter's name matches \"", pattern,
          "\", or the parameter is frozen");
  return found;
}

std::int64_t set_training(Module& module, const char* what, const std::string& pattern, bool on) {
  std::int64_t count = 0;
  for (const NamedTensor& p : module.named_parameters()) {
    if (!matches(p.name, pattern)) continue;
    p.tensor.requires_grad_(on);
    ++count;
  }
  if (count == 0) nothing_matches(module, what, pattern);
  return count;
}

}  // namespace

Tensors parameters_like(Module& module, const std::string& pattern) {
  return trained(module, pattern, true);
}
Tensors parameters_unlike(Module& module, const std::string& pattern) {
  return trained(module, pattern, false);
}

std::int64_t freeze(Module& module, const std::string& pattern) {
  return set_training(module, "freeze", pattern, false);
}
std::int64_t unfreeze(Module& module, const std::string& pattern) {
  return set_training(module, "unfreeze", pattern, true);
}

}  // namespace rondo::nn
