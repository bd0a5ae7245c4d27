#pragma once
// Modules made of modules or of parameters: Sequential and ModuleList name them "0", "1", …;
// ModuleDict and ParameterDict by keys. A Sequential may also have names of its own.

#include <concepts>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

namespace detail {
/// Elements with names, in the order in which they were added.
template <class T>
class NamedList {
 public:
  /// `what` names the elements in errors: "modules".
  explicit NamedList(const char* what) : what_(what) {}
  std::int64_t size() const { return static_cast<std::int64_t>(elements_.size()); }
  bool contains(const std::string& key) const;
  const std::vector<std::string>& keys() const { return keys_; }
  std::vector<T>& elements() { return elements_; }

  /// Element i; negative ones count from the end. Throws Error outside -size … size-1.
  T& at(std::int64_t i);
  /// The element with this key. Throws Error for an unknown key.
  const T& at(const std::string& key) const;
  T& at(const std::string& key) { return const_cast<T&>(std::as_const(*this).at(key)); }
  /// Adds an element, or replaces the one with this key. Throws Error for a key that is empty or
  /// contains a dot, because state dicts separate names by dots.
  void insert(const std::string& key, T element);
  /// The same, but throws Error if the key is taken.
  void add(const std::string& key, T element);
  void erase(const std::string& key);

 private:
  const char* what_;
  std::vector<std::string> keys_;
  std::vector<T> elements_;
};

/// The base of Sequential and ModuleList: a vector of modules that can be edited in place.
class ModuleVector : public Module {
 public:
  void push_back(AnyModule module) { modules_.add(std::to_string(size()), std::move(module)); }
  void append(AnyModule module) { push_back(std::move(module)); }
  std::int64_t size() const { return modules_.size(); }
  /// Module i; can be assigned: list[3] = nn::Identity(); list[-1] is the last one. Throws
  /// Error outside -size … size-1.
  AnyModule& operator[](std::int64_t i) { return modules_.at(i); }
  auto begin() { return modules_.elements().begin(); }
  auto end() { return modules_.elements().end(); }

  void visit(Visitor& v) override;

 protected:
  ModuleVector() = default;
  NamedList<AnyModule> modules_{"modules"};
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

/// Modules by name, in the order in which they were added. Like ModuleList, it has no forward:
///
///   nn::ModuleDict heads({{"class", nn::Linear(64, 10)}, {"box", nn::Linear(64, 4)}});
///   Tensor boxes = heads["box"](features);
class ModuleDict : public Module {
 public:
  using Item = std::pair<std::string, AnyModule>;
  ModuleDict() = default;
  ModuleDict(std::initializer_list<Item> items) {
    for (const auto& [key, module] : items) insert(key, module);
  }

  /// Adds a module, or replaces the one with this key. Throws Error for an invalid key.
  void insert(const std::string& key, AnyModule module) { modules_.insert(key, std::move(module)); }
  /// Can be assigned. Throws Error for an unknown key.
  AnyModule& operator[](const std::string& key) { return modules_.at(key); }
  void erase(const std::string& key) { modules_.erase(key); }
  bool contains(const std::string& key) const { return modules_.contains(key); }
  const std::vector<std::string>& keys() const { return modules_.keys(); }
  std::int64_t size() const { return modules_.size(); }

  Tensor forward(const Tensor&) override {
    throw Error("ModuleDict: has no forward, call its elements");
  }
  void visit(Visitor& v) override {
    for (const std::string& key : keys()) v.child(key, (*this)[key]);
  }

 private:
  detail::NamedList<AnyModule> modules_{"modules"};
};

namespace detail {
/// The base of ParameterList and ParameterDict.
class Parameters : public Module {
 public:
  std::int64_t size() const { return parameters_.size(); }
  Tensor forward(const Tensor&) override {
    throw Error(type_name(*this) + ": has no forward, use its elements");
  }
  void visit(Visitor& v) override {
    for (const std::string& key : parameters_.keys()) v.parameter(key, parameters_.at(key));
  }
  std::string extra_repr() const override;

 protected:
  Parameters() = default;
  NamedList<Tensor> parameters_{"parameters"};
};
}  // namespace detail

/// Parameters named "0", "1", …: nn::ParameterList weights({rd::randn({2, 3}), rd::zeros({3})}).
class ParameterList : public detail::Parameters {
 public:
  ParameterList() = default;
  explicit ParameterList(const Tensors& parameters) {
    for (const Tensor& p : parameters) push_back(p);
  }
  void push_back(const Tensor& parameter) { parameters_.add(std::to_string(size()), parameter); }
  void append(const Tensor& parameter) { push_back(parameter); }
  /// Can be assigned. Throws Error outside -size … size-1.
  Tensor& operator[](std::int64_t i) { return parameters_.at(i); }
  auto begin() { return parameters_.elements().begin(); }
  auto end() { return parameters_.elements().end(); }
};

/// Parameters by name, in the order in which they were added.
class ParameterDict : public detail::Parameters {
 public:
  using Item = std::pair<std::string, Tensor>;
  ParameterDict() = default;
  ParameterDict(std::initializer_list<Item> items) {
    for (const auto& [key, parameter] : items) insert(key, parameter);
  }
  /// Adds a parameter, or replaces the one with this key. Throws Error for an invalid key.
  void insert(const std::string& key, const Tensor& parameter) {
    parameters_.insert(key, parameter);
  }
  /// Can be assigned. Throws Error for an unknown key.
  Tensor& operator[](const std::string& key) { return parameters_.at(key); }
  void erase(const std::string& key) { parameters_.erase(key); }
  bool contains(const std::string& key) const { return parameters_.contains(key); }
  const std::vector<std::string>& keys() const { return parameters_.keys(); }
};

/// Runs its modules one after another:
///
///   nn::Sequential net{nn::Flatten(), nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10)};
///   nn::Sequential named({{"fc", nn::Linear(784, 10)}, {"act", nn::ReLU()}});
///
/// Braces make the modules from left to right, so they draw their weights in PyTorch's order. In
/// parentheses the order is the compiler's: GCC begins with the last module, clang with the first.
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
  explicit Sequential(std::initializer_list<ModuleDict::Item> named) {
    for (const auto& [name, module] : named) push_back(name, module);
  }

  using ModuleVector::push_back;
  /// A module with a name of its own. Throws Error for a name that is invalid or taken.
  void push_back(const std::string& name, AnyModule module) {
    modules_.add(name, std::move(module));
  }

  /// If true, backward recomputes each module's intermediate results instead of keeping them
  /// (autograd/checkpoint.h). The modules must then not move in memory until backward.
  bool grad_checkpointing = false;

  Tensor forward(const Tensor& x) override;
};

}  // namespace rondo::nn
