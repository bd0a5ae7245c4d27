#pragma once
// Module: a model, or a part of one. It has value semantics:
//
//   struct Net : nn::Module {
//     nn::Linear fc1{784, 512}, fc2{512, 10};
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//     void visit(nn::Visitor& v) override {
//       v.child("fc1", fc1);
//       v.child("fc2", fc2);
//     }
//   };
//
// `visit` is the only function that a module must write besides forward: it shows the module's
// parameters, buffers and children, in order and by name. Everything else (parameters(),
// state_dict(), to(), train(), clone()) is built on it. Children are plain members, so an
// assignment replaces one: net.fc2 = nn::Linear(512, 100). Copying a module copies handles: both
// copies then share their parameters. `clone(net)` copies the parameters, too.
//
// If `visit` does not show a layer, nn/shown.h detects it when the layer gets a gradient.

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "tensor/record_function.h"
#include "tensor/tensor.h"

namespace rondo::nn {

class Module;

/// Receives the parameters, buffers and children that a module shows.
class Visitor {
 public:
  virtual ~Visitor() = default;
  /// A tensor that is trained: it requires a gradient from now on, unless requires_grad_ was called
  /// on it before. An undefined tensor (a layer without bias) is skipped.
  virtual void parameter(std::string_view name, Tensor& tensor) = 0;
  /// A tensor that is saved but not trained, such as running statistics.
  virtual void buffer(std::string_view name, Tensor& tensor) = 0;
  virtual void child(std::string_view name, Module& module) = 0;
  /// A child behind a pointer; null is skipped. Copies of the owner share the module that a
  /// shared_ptr holds. A clone and a replica get their own copy of it, one for each module that the
  /// original holds. Making that copy throws Error if M is a base class of the child's type.
  template <std::derived_from<Module> M>
  void child(std::string_view name, std::shared_ptr<M>& module);
  template <std::derived_from<Module> M, class Deleter>
  void child(std::string_view name, std::unique_ptr<M, Deleter>& module) {
    if (module != nullptr) child(name, static_cast<Module&>(*module));
  }

 protected:
  /// Copies a child of known type; null if the type is not M exactly.
  using Copy = std::shared_ptr<Module> (*)(const Module&);
  /// The module that the shared_ptr holds from now on instead of this child; null: keep this child.
  virtual std::shared_ptr<Module> instead_of(std::string_view, Module&, Copy) { return nullptr; }
};

struct NamedTensor {
  std::string name;  // dotted path: "layer1.0.conv1.weight"
  Tensor tensor;
};

/// Names in order of declaration, as PyTorch's state_dict.
using StateDict = std::vector<NamedTensor>;

class AnyModule;

namespace detail {
class Running;

/// Owns a module, or is empty. The module's type is known at construction, so a copy has that type,
/// too.
class OwnedModule {
 public:
  OwnedModule() = default;
  template <class M>
  explicit OwnedModule(M module)
      : module_(std::make_unique<M>(std::move(module))), copy_([](const Module& m) {
          return std::unique_ptr<Module>(std::make_unique<M>(static_cast<const M&>(m)));
        }) {
    static_assert(std::is_copy_constructible_v<M>,
                  "AnyModule holds modules that can be copied, which one with a unique_ptr cannot: "
                  "make that member an nn::AnyModule, a layer or a shared_ptr");
  }
  OwnedModule(const OwnedModule& other);
  OwnedModule(OwnedModule&&) noexcept = default;
  OwnedModule& operator=(OwnedModule other) noexcept;
  ~OwnedModule();
  Module* get() const { return module_.get(); }

 private:
  std::unique_ptr<Module> module_;
  std::unique_ptr<Module> (*copy_)(const Module&) = nullptr;
};
}  // namespace detail

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = default;
  Module(Module&&) = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) = default;

  virtual Tensor forward(const Tensor& x) = 0;
  virtual void visit(Visitor&) {}
  /// The multiplications, each with its addition, that forward needs from x to y, without those of
  /// its child modules; for summarize. Layers that only move data through memory return 0.
  virtual std::int64_t multiply_adds(const Tensor& /*x*/, const Tensor& /*y*/) const { return 0; }
  /// The options that `std::cout << model` prints behind the type: "3, 16, kernel_size=(3, 3)".
  virtual std::string extra_repr() const { return {}; }
  /// Runs forward. Under AnomalyMode, the nodes created meanwhile remember this module's name.
  Tensor operator()(const Tensor& x);
  /// The module that runs: this one, or the one that an AnyModule holds, or the one that
  /// set_submodule put in place of this one. Functions that walk through a tree of modules (train,
  /// apply, named_modules) visit these.
  virtual const Module& self() const { return substitute() ? substitute()->self() : *this; }
  Module& self() { return const_cast<Module&>(std::as_const(*this).self()); }

  /// Throws Error if a module in evaluation mode runs this module in training mode, and neither
  /// train nor eval has ever reached this module: then its owner's visit does not show it.
  bool is_training() const;
  /// Sets training mode for this module and all its children.
  void train(bool on = true);
  void eval() { train(false); }

  /// A tensor shown under two names (a shared weight) is listed once, under its first name.
  std::vector<Tensor> parameters();
  std::vector<NamedTensor> named_parameters();
  std::vector<NamedTensor> named_buffers();
  /// This module (named "") and all modules below it, parents first.
  std::vector<std::pair<std::string, Module*>> named_modules();
  std::int64_t num_parameters();
  /// Replaces the module at `path` ("layer1.0.conv1"; "" for this one) by `module`, whatever type
  /// its owner declared it as. From then on `module` runs there, and all functions of this class
  /// see it. The old module's parameters are released, except those that other modules share.
  /// Throws Error if no module has that path.
  void set_submodule(const std::string& path, AnyModule module);

  /// Converts floating-point parameters and buffers in place, so optimizers that hold them see the
  /// change, too. Throws DTypeError if dtype is not floating-point. A module may keep some tensors
  /// in another precision (`stored_dtype`).
  void to(DType dtype);
  void to(Device device);
  /// The dtype of this module's own tensors when it is converted to `dtype`. Batch norms return f32
  /// for 16-bit floats, because running averages do not progress in 16 bits.
  virtual DType stored_dtype(DType dtype) const { return dtype; }
  /// Makes all gradients undefined.
  void zero_grad();
  /// Stops (or resumes) training of all parameters of this module and its children.
  void requires_grad_(bool value = true);

  /// Parameters and buffers, module by module. The tensors share memory with the module: clone
  /// those that must not change. A shared weight is listed under each of its names.
  StateDict state_dict();
  struct LoadOptions {
    bool strict = true;  // false: load the keys that match by name, report the others
  };
  struct LoadReport {
    std::vector<std::string> missing, unexpected, misshapen;
  };
  /// Copies values into the module, converting dtypes. Strict: throws Error listing every missing,
  /// unexpected and misshapen key, and then changes nothing. Misshapen and duplicate keys throw in
  /// either case. As in PyTorch, num_batches_tracked of a batch norm may be absent (files older
  /// than that buffer). A shared weight may be listed under one of its names only, as in files of
  /// safetensors.
  LoadReport load_state_dict(const StateDict& state, LoadOptions options);
  LoadReport load_state_dict(const StateDict& state) { return load_state_dict(state, {}); }

  /// Applies f to this module and all below it, children first.
  void apply(const std::function<void(Module&)>& f);

 protected:
  /// The module that set_submodule put in place of this one, or null.
  const Module* substitute() const { return substitute_.get(); }

 private:
  friend class detail::Running;

  detail::OwnedModule substitute_;
  bool training_ = true;
  bool mode_is_set_ = false;  // train or eval has reached this module
  bool is_part_ = false;      // a walk has reached it as a child of another module
};

/// A deep copy: its own parameters and buffers, no gradients. Also copies the module that a
/// shared_ptr holds, if `visit` shows the pointer. Throws Error if the copy and the original would
/// still share a module or a tensor, or if the module is of a class derived from M, whose own part
/// the copy would lose.
template <class M>
M clone(const M& module);

/// A module of any type, held by value. Containers and replaceable members use it.
class AnyModule final : public Module {
 public:
  AnyModule() = default;
  template <class M>
  requires(std::is_base_of_v<Module, M> && !std::is_same_v<M, AnyModule>) AnyModule(M module)
      : held_(std::move(module)) {}

  bool has_value() const { return held_.get() != nullptr; }
  /// The held module. Throws Error if it is empty.
  Module& get() const;
  const Module& self() const override {
    return has_value() ? std::as_const(*held_.get()).self() : static_cast<const Module&>(*this);
  }
  /// The module as M. Throws Error if it has another type.
  template <class M>
  M& as() const {
    auto* typed = dynamic_cast<M*>(&get());
    require(typed != nullptr, "AnyModule::as: the module is of another type");
    return *typed;
  }
  Tensor forward(const Tensor& x) override { return get().forward(x); }
  using Module::self;
  /// Shows the held module's members as its own, so that names have no extra level.
  void visit(Visitor& v) override {
    if (has_value()) get().visit(v);
  }

 private:
  detail::OwnedModule held_;
};

/// Prints the tree of modules as PyTorch does: for each its type, its options and its children.
std::ostream& operator<<(std::ostream& out, const Module& model);

namespace detail {
/// Where `copy`, a copy of `original`, shares modules with it by shared_ptr, gives `copy` its own.
/// Throws Error naming a module or tensor that they share in another way.
void separate(const Module& original, Module& copy);
/// The same, and also copies all parameters and buffers. Weights shared inside the model stay
/// shared.
void unshare(const Module& original, Module& copy);

/// Throws Error unless `module` is of type M exactly.
void require_whole(const Module& module, const std::type_info& M);

/// "Conv2d" for rondo::nn::Conv2d.
std::string type_name(const Module& module);
std::string type_name(const std::type_info& type);

/// While this object lives, `module` is the innermost one running on this thread, with `inputs`.
/// Under AnomalyMode, and while a profiler records, it opens a scope such as "layer1.0.conv1": the
/// path from the calling module to this one.
class Running {
 public:
  Running(Module& module, std::initializer_list<const Tensor*> inputs);
  ~Running();
  /// The outermost running module of this thread, or null.
  static const Running* outermost();
  Module& module() const { return module_; }
  bool is_input(const Tensor& x) const;
  /// The innermost running module of this thread; there must be one.
  static Module& innermost();
  /// Throws the error of Module::is_training.
  static void require_eval_reached(const Module& module);
  static void set_part(Module& module) {
    if (!module.is_part_) module.is_part_ = true;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Module& module_;
  Running* caller_;
  std::array<const TensorImpl*, 8> inputs_ = {};  // of the outermost one
  std::string name_;
  std::optional<ScopeName> scope_;
  RecordFunction range_;
};
}  // namespace detail

template <class M>
M clone(const M& module) {
  static_assert(
      std::is_copy_constructible_v<M>,
      "clone: a module with a unique_ptr cannot be copied: make that member an nn::AnyModule, "
      "a layer or a shared_ptr");
  detail::require_whole(module, typeid(M));
  M copy = module;
  detail::unshare(module, copy);
  return copy;
}

template <std::derived_from<Module> M>
void Visitor::child(std::string_view name, std::shared_ptr<M>& module) {
  if (module == nullptr) return;
  const Copy copy = [](const Module& m) -> std::shared_ptr<Module> {
    if constexpr (std::is_copy_constructible_v<M>) {
      if (typeid(m) == typeid(M)) return std::make_shared<M>(static_cast<const M&>(m));
    }
    return nullptr;
  };
  if (auto own = instead_of(name, *module, copy)) module = std::static_pointer_cast<M>(own);
  child(name, static_cast<Module&>(*module));
}

}  // namespace rondo::nn
