#pragma once
// Sequential and ModuleList: modules made of a list of modules, which are named "0", "1", ….

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/checkpoint.h"
#include "nn/module.h"

namespace rondo::nn {

namespace detail {
/// The base of both containers: a vector of modules that can be edited in place.
class ModuleVector : public Module {
 public:
  void push_back(AnyModule module) { modules_.push_back(std::move(module)); }
  std::int64_t size() const { return static_cast<std::int64_t>(modules_.size()); }
  /// Module i; can be assigned: list[3] = nn::Identity(). Throws Error outside 0 … size-1.
  AnyModule& operator[](std::int64_t i) {
    require(i >= 0 && i < size(), "index ", i, " in a container of ", size(), " modules");
    return modules_[static_cast<std::size_t>(i)];
  }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }

  void visit(Visitor& v) override {
    for (std::size_t i = 0; i < modules_.size(); ++i) v.child(std::to_string(i), modules_[i]);
  }

 protected:
  ModuleVector() = default;

 private:
  std::vector<AnyModule> modules_;
};
}  // namespace detail

/// A list of modules of any types. It has no forward: the module that owns it runs the elements,
/// for example `for (auto& block : blocks) x = block(x);`.
class ModuleList : public detail::ModuleVector {
 public:
  ModuleList() = default;
  template <std::derived_from<Module>... M>
  requires(sizeof...(M) > 1 ||
           (!std::derived_from<M, ModuleList> && ...)) explicit ModuleList(M... modules) {
    (push_back(std::move(modules)), ...);
  }

  Tensor forward(const Tensor&) override {
    throw Error("ModuleList: has no forward, call its elements");
  }
};

/// Runs its modules one after another:
///
///   nn::Sequential net(nn::Flatten(), nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10));
class Sequential : public detail::ModuleVector {
 public:
  Sequential() = default;
  template <std::derived_from<Module>... M>
  requires(sizeof...(M) > 1 ||
           (!std::derived_from<M, Sequential> && ...)) explicit Sequential(M... modules) {
    static_assert(
        (M::takes_one_tensor && ...),
        "Sequential: it passes one tensor from module to module; call a module with other "
        "arguments or results in a forward of your own");
    (push_back(std::move(modules)), ...);
  }

  /// If true, backward recomputes each module's intermediate results instead of keeping them
  /// (autograd/checkpoint.h). The modules must then not move in memory until backward.
  bool grad_checkpointing = false;

  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (AnyModule& module : *this) y = grad_checkpointing ? checkpoint(module, y) : module(y);
    return y;
  }
};

}  // namespace rondo::nn
