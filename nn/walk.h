#pragma once
// Walks through a tree of modules: Members collects what one module shows to `visit`, `walk` does
// so for all modules.

#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "nn/shown.h"
#include "tensor/error.h"

namespace rondo::nn::detail {

template <class T>
using Named = std::vector<std::pair<std::string, T*>>;

/// What one module shows, sorted by kind: state dicts list a module's own parameters, then its
/// buffers, then its children, in any order of the calls in `visit`.
struct Members final : Visitor {
  explicit Members(Module& module) { module.visit(*this); }

  void parameter(std::string_view name, Tensor& tensor) override {
    claim(name);
    if (!tensor.defined()) return;
    show_parameter(tensor);
    parameters.emplace_back(name, &tensor);
  }
  void buffer(std::string_view name, Tensor& tensor) override {
    claim(name);
    if (!tensor.defined()) return;
    show_buffer(tensor);
    buffers.emplace_back(name, &tensor);
  }
  void non_persistent_buffer(std::string_view name, Tensor& tensor) override {
    buffer(name, tensor);
    left_out.insert(&tensor);
  }
  void child(std::string_view name, Module& module) override {
    claim(name);
    Running::set_part(module.self());
    auto* any = dynamic_cast<AnyModule*>(&module);
    if (any == nullptr || any->has_value()) children.emplace_back(name, &module.self());
  }

  Named<Tensor> parameters, buffers;
  std::set<const Tensor*> left_out;  // of state dicts
  Named<Module> children;

 private:
  /// Two members with the same name would overwrite each other in a state dict. So would a member
  /// "a.weight" and the weight of a child "a".
  void claim(std::string_view name) {
    require(!name.empty() && name.find('.') == name.npos, "visit: \"", name,
            "\" is not a valid name for a member: it must not be empty or contain a dot");
    require(names_.emplace(name).second, "visit: two members of this module are called \"", name,
            "\"");
  }

  std::unordered_set<std::string> names_;
};

/// "path.name".
inline std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// The modules from the root of a walk down to the current one.
struct Ancestry {
  const Module& module;
  const Ancestry* above;
  bool contains(const Module& other) const {
    return &module == &other || (above != nullptr && above->contains(other));
  }
};

/// Calls f(path, module, members) for the module and all modules below it, parents first.
template <class F>
void walk(Module& module, const F& f, const std::string& path = "",
          const Ancestry* above = nullptr) {
  require(above == nullptr || !above->contains(module), "visit: the module \"", path,
          "\" contains itself");
  const Ancestry here{module, above};
  Members members(module);
  f(path, module, members);
  for (auto& [name, child] : members.children) walk(*child, f, join(path, name), &here);
}

}  // namespace rondo::nn::detail
