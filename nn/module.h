#pragma once
// Module: a model, or a part of one. A value like any other:
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
// `visit` is the whole protocol: it shows the module's parameters, buffers and children, in order
// and by name, and everything else (parameters(), state_dict(), to(), train(), clone()) is written
// once on top of it. Children are plain members, so replacing one is an assignment: net.fc2 =
// nn::Linear(512, 100). Copying a module copies handles: both copies then share their parameters.
// `clone(net)` copies them.
//
// A layer that `visit` leaves out is found when it gets a gradient: nn/shown.h.

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "tensor/record_function.h"
#include "tensor/tensor.h"

namespace rondo::nn {

class Module;

/// Receives what a module shows of itself.
class Visitor {
 public:
  virtual ~Visitor() = default;
  /// Something that is trained: it requires a gradient from here on, unless requires_grad_ was
  /// called on it before. An undefined tensor (a layer without bias) is passed over.
  virtual void parameter(std::string_view name, Tensor& tensor) = 0;
  /// Something that is saved but not trained, such as running statistics.
  virtual void buffer(std::string_view name, Tensor& tensor) = 0;
  virtual void child(std::string_view name, Module& module) = 0;
  /// A child behind a pointer; a null one is passed over. Copies of its owner share what a
  /// shared_ptr holds; a clone and a replica get their own, one for each that the original has.
  /// Throws Error there when M is a base class of the child's type.
  template <std::derived_from<Module> M>
  void child(std::string_view name, std::shared_ptr<M>& module);
  template <std::derived_from<Module> M, class Deleter>
  void child(std::string_view name, std::unique_ptr<M, Deleter>& module) {
    if (module != nullptr) child(name, static_cast<Module&>(*module));
  }

 protected:
  /// A copy of a child of a type that is known, or null.
  using Copy = std::shared_ptr<Module> (*)(const Module&);
  /// The module that a shared_ptr holds from here on instead of this child; null: this child.
  virtual std::shared_ptr<Module> instead_of(std::string_view, Module&, Copy) { return nullptr; }
};

struct NamedTensor {
  std::string name;  // dotted path: "layer1.0.conv1.weight"
  Tensor tensor;
};

/// Names in the order of declaration, as PyTorch's state_dict.
using StateDict = std::vector<NamedTensor>;

class AnyModule;

namespace detail {
class Running;

/// A module of a type that is known where it is put in: copied as that type, or none.
class Held {
 public:
  Held() = default;
  template <class M>
  explicit Held(M module)
      : module_(std::make_unique<M>(std::move(module))), copy_([](const Module& m) {
          return std::unique_ptr<Module>(std::make_unique<M>(static_cast<const M&>(m)));
        }) {
    static_assert(std::is_copy_constructible_v<M>,
                  "AnyModule holds modules that can be copied, which one with a unique_ptr cannot: "
                  "make that member an nn::AnyModule, a layer or a shared_ptr");
  }
  Held(const Held& other);
  Held(Held&&) noexcept = default;
  Held& operator=(Held other) noexcept;
  ~Held();
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
  /// The multiplications, each with its addition, that forward took from x to y, without those of
  /// other modules in it: for summarize. Layers that only pass over memory count none.
  virtual std::int64_t multiply_adds(const Tensor& /*x*/, const Tensor& /*y*/) const { return 0; }
  /// Runs forward. Under AnomalyMode the nodes made meanwhile remember this module's name.
  Tensor operator()(const Tensor& x);
  /// The module that does the work: this one, the one that an AnyModule holds, or the one that was
  /// put in this one's place. Whatever goes through a tree of modules (train, apply, named_modules)
  /// stops at these.
  virtual const Module& self() const { return substitute() ? substitute()->self() : *this; }
  Module& self() { return const_cast<Module&>(std::as_const(*this).self()); }

  /// Throws Error in the forward of a layer in training mode that a module in evaluation mode runs,
  /// if neither train nor eval has ever reached the layer: its owner's visit leaves it out.
  bool is_training() const;
  /// Sets training mode here and in all children.
  void train(bool on = true);
  void eval() { train(false); }

  /// A tensor shown under two names (a shared weight) is listed once, under its first.
  std::vector<Tensor> parameters();
  std::vector<NamedTensor> named_parameters();
  std::vector<NamedTensor> named_buffers();
  /// This module ("") and all below it, parents first.
  std::vector<std::pair<std::string, Module*>> named_modules();
  std::int64_t num_parameters();
  /// Puts `module` in the place of the one at `path` ("layer1.0.conv1"; "" for this one), whatever
  /// type its owner declared it as: from then on that is what runs there and what all of the above
  /// and below see. What was there is gone with its parameters, but for those that others share.
  /// Throws Error when there is none at that path.
  void set_submodule(const std::string& path, AnyModule module);

  /// Converts floating-point parameters and buffers in place: optimizers that hold them see it too.
  /// Throws DTypeError for a dtype that is no float. A module may keep some in another precision
  /// (`stored_dtype`).
  void to(DType dtype);
  void to(Device device);
  /// The dtype of this module's own tensors when it is asked to work in `dtype`. Batch norms answer
  /// f32 for the 16-bit floats, in which running averages would get stuck.
  virtual DType stored_dtype(DType dtype) const { return dtype; }
  /// Makes all gradients undefined.
  void zero_grad();
  /// Stops (or resumes) training of all parameters below.
  void requires_grad_(bool value = true);

  /// Parameters and buffers, module by module, sharing their memory: clone what must not change.
  /// A shared weight is listed under each of its names.
  StateDict state_dict();
  struct LoadOptions {
    bool strict = true;  // false: load what fits by name, report the rest
  };
  struct LoadReport {
    std::vector<std::string> missing, unexpected, misshapen;
  };
  /// Copies values in, converting dtypes. Strict: throws Error listing every missing, unexpected
  /// and misshapen key, and then nothing has been changed. Misshapen and duplicate keys throw in
  /// either case. As in PyTorch, a batch norm's num_batches_tracked may be absent (files older than
  /// that buffer).
  LoadReport load_state_dict(const StateDict& state, LoadOptions options);
  LoadReport load_state_dict(const StateDict& state) { return load_state_dict(state, {}); }

  /// Applies f to this module and all below it, children first.
  void apply(const std::function<void(Module&)>& f);

 protected:
  /// What was put in this module's place; null: nothing.
  const Module* substitute() const { return substitute_.get(); }

 private:
  friend class detail::Running;

  detail::Held substitute_;
  bool training_ = true;
  bool mode_is_set_ = false;  // train or eval has reached it
  bool is_part_ = false;      // a walk has reached it as a child of another module
};

/// A deep copy: own parameters, own buffers, no gradients. It also copies what a shared_ptr holds,
/// if `visit` shows the pointer. Throws Error when the copy and the original share a module
/// or a tensor all the same.
template <class M>
M clone(const M& module);

/// A module of any type, held by value: what containers and replaceable members are made of.
class AnyModule final : public Module {
 public:
  AnyModule() = default;
  template <class M>
  requires(std::is_base_of_v<Module, M> && !std::is_same_v<M, AnyModule>) AnyModule(M module)
      : held_(std::move(module)) {}

  bool has_value() const { return held_.get() != nullptr; }
  /// The held module; throws Error when there is none.
  Module& get() const;
  const Module& self() const override {
    return has_value() ? std::as_const(*held_.get()).self() : static_cast<const Module&>(*this);
  }
  /// The module as M; throws Error when it is something else.
  template <class M>
  M& as() const {
    auto* typed = dynamic_cast<M*>(&get());
    require(typed != nullptr, "AnyModule::as: the module is of another type");
    return *typed;
  }
  Tensor forward(const Tensor& x) override { return get().forward(x); }
  using Module::self;
  /// Transparent: shows the held module's members as its own, so that names have no extra level.
  void visit(Visitor& v) override {
    if (has_value()) get().visit(v);
  }

 private:
  detail::Held held_;
};

namespace detail {
/// Gives `copy`, a copy of `original`, modules of its own where the two share some by shared_ptr.
/// Throws Error naming a module or tensor that they share in another way.
void separate(const Module& original, Module& copy);
/// The same, and own copies of all parameters and buffers; weights shared inside stay so.
void unshare(const Module& original, Module& copy);

/// "Conv2d" of rondo::nn::Conv2d.
std::string type_name(const Module& module);

/// While it lives, `module` is the one running on this thread, on `inputs`. Under AnomalyMode, and
/// while a profiler records, it opens the scope "layer1.0.conv1": the path from the module that
/// called it.
class Running {
 public:
  Running(Module& module, std::initializer_list<const Tensor*> inputs);
  ~Running();
  /// The outermost one of this thread, or null.
  static const Running* outermost();
  Module& module() const { return module_; }
  bool is_input(const Tensor& x) const;
  /// The module that runs, called by all others that do.
  static Module& innermost();
  /// What Module::is_training throws.
  static void require_eval_reached(const Module& module);
  static void set_part(Module& module) {
    if (!module.is_part_) module.is_part_ = true;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Module& module_;
  Running* caller_;
  std::array<const TensorImpl*, 5> inputs_ = {};  // of the outermost one
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
