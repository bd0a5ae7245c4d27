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
// A model with other arguments or results than one tensor derives from ModuleOf, with the signature
// of its forward:
//
//   struct Net : nn::ModuleOf<Detections(Tensor, Tensor)> {
//     Detections forward(Tensor image, Tensor mask) override { … }
//   };
//   Detections found = net(image, mask);
//
// If `visit` does not show a layer, nn/shown.h detects it when the layer gets a gradient.
//
// Read next: optim/optimizer.h.

#include <concepts>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/autograd_meta.h"
#include "autograd/each_tensor.h"
#include "autograd/grad_mode.h"
#include "nn/hooks.h"
#include "nn/running.h"
#include "nn/state_dict.h"
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
  /// A buffer that state dicts leave out, since the constructor computes it, such as a mask
  /// (PyTorch's persistent=False).
  virtual void non_persistent_buffer(std::string_view name, Tensor& tensor) {
    buffer(name, tensor);
  }
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

class AnyModule;

namespace detail {
/// Whether a ForwardObserver (nn/observe.h) lives on this thread.
bool has_observer();

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

  virtual Tensor forward(const Tensor& x) = 0;  // other arguments, other results: nn::ModuleOf
  virtual void visit(Visitor&) {}
  /// The multiplications, each with its addition, that forward needs from x to y, without those of
  /// its child modules; for summarize. Layers that only move data through memory return 0. x and y
  /// are the first tensors of the arguments and of the result.
  virtual std::int64_t multiply_adds(const Tensor& /*x*/, const Tensor& /*y*/) const { return 0; }
  /// The same for a module whose count depends on other arguments than the first.
  virtual std::int64_t multiply_adds_of(const Tensors& inputs, const Tensors& outputs) const {
    return inputs.empty() || outputs.empty() ? 0 : multiply_adds(inputs[0], outputs[0]);
  }
  /// The options that `std::cout << model` prints behind the type: "3, 16, kernel_size=(3, 3)".
  virtual std::string extra_repr() const { return {}; }
  /// Runs forward and the hooks. Under AnomalyMode, the nodes created meanwhile remember this
  /// module's name.
  Tensor operator()(const Tensor& x);
  void operator()(...) = delete;  // a forward with these arguments: derive from nn::ModuleOf
  /// The signature of forward, and whether containers, which call forward with one tensor, can run
  /// this module.
  using Forward = Tensor(const Tensor&);
  static constexpr bool takes_one_tensor = true;
  /// The module that runs: this one, or the one that an AnyModule holds, or the one that
  /// set_submodule put in place of this one. Functions that walk through a tree of modules (train,
  /// apply, named_modules) visit these.
  virtual const Module& self() const { return substitute() ? substitute()->self() : *this; }
  Module& self() { return const_cast<Module&>(std::as_const(*this).self()); }

  /// Throws Error if a module in evaluation mode runs this module in training mode, and neither
  /// train nor eval has ever reached this module: then its owner's visit does not show it.
  bool is_training() const;
  /// Sets training mode for this module and all its children. Like to, requires_grad_ and apply,
  /// these functions return this module, so that calls can be chained: net.to(bf16).eval().
  Module& train(bool on = true);
  Module& eval() { return train(false); }

  /// A tensor shown under two names (a shared weight) is listed once, under its first name.
  std::vector<Tensor> parameters();
  std::vector<NamedTensor> named_parameters();
  std::vector<NamedTensor> named_buffers();
  /// This module (named "") and all modules below it, parents first.
  std::vector<std::pair<std::string, Module*>> named_modules();
  std::vector<Module*> modules();
  /// The modules that `visit` shows, without those below them.
  std::vector<std::pair<std::string, Module*>> named_children();
  std::vector<Module*> children();
  std::int64_t num_parameters();
  /// The module, parameter or buffer with this path ("layer1.0.conv1", "fc.weight"). Throws Error
  /// listing similar names if nothing has that path.
  Module& get_submodule(const std::string& path);
  Tensor get_parameter(const std::string& path);
  Tensor get_buffer(const std::string& path);
  /// Replaces the module at `path` ("layer1.0.conv1"; "" for this one) by `module`, whatever type
  /// its owner declared it as. From then on `module` runs there, and all functions of this class
  /// see it. The old module's parameters are released, except those that other modules share.
  /// Throws Error if no module has that path.
  void set_submodule(const std::string& path, AnyModule module);

  /// Converts floating-point parameters and buffers in place, so optimizers that hold them see the
  /// change, too. Throws DTypeError if dtype is not floating-point. A module may keep some tensors
  /// in another precision (`stored_dtype`).
  Module& to(DType dtype);
  Module& to(Device device);
  Module& cpu() { return to(Device::cpu()); }
  Module& cuda(int index = 0) { return to(Device::cuda(index)); }
  Module& half() { return to(f16); }
  Module& bfloat16() { return to(bf16); }
  /// The dtype of this module's own tensors when it is converted to `dtype`. Batch norms return f32
  /// for 16-bit floats, because running averages do not progress in 16 bits.
  virtual DType stored_dtype(DType dtype) const { return dtype; }
  /// Makes all gradients undefined.
  void zero_grad();
  /// Stops (or resumes) training of all parameters of this module and its children.
  Module& requires_grad_(bool value = true);

  /// Parameters and buffers, module by module. The tensors share memory with the module: clone
  /// those that must not change. A shared weight is listed under each of its names.
  StateDict state_dict();
  struct LoadOptions {
    bool strict = true;  // false: load the keys that match by name, report the others
  };
  struct LoadReport {
    std::vector<std::string> missing_keys, unexpected_keys, misshapen_keys;
  };
  /// Copies values into the module, converting dtypes. Strict: throws Error listing every missing,
  /// unexpected and misshapen key, and then changes nothing. Misshapen and duplicate keys throw in
  /// either case. As in PyTorch, num_batches_tracked of a batch norm may be absent (files older
  /// than that buffer). A shared weight may be listed under one of its names only, as in files of
  /// safetensors.
  LoadReport load_state_dict(const StateDict& state, LoadOptions options);
  LoadReport load_state_dict(const StateDict& state) { return load_state_dict(state, {}); }

  /// Applies f to this module and all below it, children first.
  Module& apply(const std::function<void(Module&)>& f);

  /// Hooks run whenever this module is called, in the order of registration (Note [Hooks] in
  /// nn/hooks.h). They get the tensors of arguments and results as Tensors. A hook returns nothing,
  /// or what replaces the tensors that it got last: Tensors, or a Tensor if there is one. Throws
  /// Error for another number of tensors. The handle's remove() removes the hook.
  ///
  ///   auto handle = net.fc.register_forward_hook(
  ///       [&](nn::Module&, const Tensors& inputs, const Tensors& outputs) { y = outputs[0]; });
  ///
  /// hook(module, inputs), before forward.
  template <class F>
  HookHandle register_forward_pre_hook(F hook) {
    return self().hooks_.add_before(detail::as_hook<F, const Tensors&>(std::move(hook)));
  }
  /// hook(module, inputs, outputs), after forward.
  template <class F>
  HookHandle register_forward_hook(F hook) {
    return self().hooks_.add_after(
        detail::as_hook<F, const Tensors&, const Tensors&>(std::move(hook)));
  }
  /// hook(module, grad_input, grad_output), in backward, when the gradients of the arguments are
  /// complete. Undefined tensors have no gradient; if no argument requires one, the hook runs when
  /// the gradients of the results are complete. The module must stay where it is until backward.
  template <class F>
  HookHandle register_full_backward_hook(F hook) {
    return self().hooks_.add_backward(
        detail::as_hook<F, const Tensors&, const Tensors&>(std::move(hook)));
  }

 protected:
  /// forward(inputs...), run as the forward of this module: with its hooks, observers and checks.
  /// Each operator() of a derived class is one such call, and passes all tensors as inputs:
  ///
  ///   return call([&](const Tensor& x, const Tensor& mask) { return run(x, mask); }, x, mask);
  template <class F, class... Inputs>
  auto call(const F& forward, Inputs&... inputs) -> std::invoke_result_t<const F&, Inputs&...>;
  /// The module that set_submodule put in place of this one, or null.
  const Module* substitute() const { return substitute_.get(); }

 private:
  friend class detail::Running;

  detail::OwnedModule substitute_;
  detail::OwnedHooks hooks_;
  bool training_ = true;
  bool mode_is_set_ = false;  // train or eval has reached this module
  bool is_part_ = false;      // a walk has reached it as a child of another module
};

namespace detail {
/// Whether the arguments after the first `given` ones are tensors.
template <class... Args>
constexpr bool rest_are_tensors(std::size_t given) {
  std::size_t i = 0;
  return given <= sizeof...(Args) &&
         ((i++ < given || std::same_as<std::remove_cvref_t<Args>, Tensor>)&&...);
}
}  // namespace detail

/// A module whose forward has the signature Result(Args...). Arguments and results may be of any
/// types; autograd/each_tensor.h says what a struct of tensors needs. Everything else is as in
/// Module, except that only code that knows the signature can call it: Sequential and Trainer take
/// modules of one tensor.
///
/// Tensors at the end that a call leaves out are undefined, like None in PyTorch: net(image). Then
/// a module with a Tensor as its result also runs in a Sequential.
template <class Signature>
class ModuleOf;
template <>
class ModuleOf<Tensor(const Tensor&)> : public Module {};

template <class Result, class... Args>
class ModuleOf<Result(Args...)> : public Module {
  static_assert(!std::is_void_v<Result>, "ModuleOf: forward must return a result");
  static_assert(!std::same_as<std::tuple<Args...>, std::tuple<const Tensor&>>,
                "ModuleOf: take the only argument by value: ModuleOf<Result(Tensor)>, and "
                "`Result forward(Tensor x) override`, because `forward(const Tensor&)` of Module "
                "returns a Tensor");

 public:
  using Forward = Result(Args...);
  static constexpr bool takes_one_tensor = std::same_as<Result, Tensor> && sizeof...(Args) > 0 &&
                                           detail::rest_are_tensors<Args...>(0);

  virtual Result forward(Args... args) = 0;
  Result operator()(Args... args) {
    ModuleOf& module = runs();
    return module.call(
        [&](auto&... inputs) -> Result {
          return (module.*ModuleOf::run)(static_cast<Args>(inputs)...);
        },
        args...);
  }
  template <class... Given>
  requires(sizeof...(Given) < sizeof...(Args) &&
           detail::rest_are_tensors<Args...>(sizeof...(Given))) Result
  operator()(const Given&... given) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return (*this)(given..., (static_cast<void>(i), Tensor())...);
    }
    (std::make_index_sequence<sizeof...(Args) - sizeof...(Given)>());
  }
  void operator()(...) = delete;  // not the arguments of this module's forward

  /// For containers.
  Tensor forward(const Tensor& x) final {
    if constexpr (takes_one_tensor) {
      return [&]<std::size_t... i>(std::index_sequence<i...>) {
        return (this->*run)(x, (static_cast<void>(i), Tensor())...);
      }
      (std::make_index_sequence<sizeof...(Args) - 1>());
    } else {
      throw Error(detail::type_name(*this) +
                  ": its forward does not take one tensor and return one; call it where its own "
                  "type is known");
    }
  }

 private:
  static constexpr Result (ModuleOf::*run)(Args...) = &ModuleOf::forward;

  /// This module, or the one that set_submodule put in its place.
  ModuleOf& runs() {
    if (substitute() == nullptr) return *this;
    auto* module = dynamic_cast<ModuleOf*>(&self());
    require(module != nullptr, detail::type_name(self()), ": set_submodule put it in place of a ",
            detail::type_name(*this), ", but its forward has other arguments or results");
    return *module;
  }
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
    require(typed != nullptr, "AnyModule::as: the module is a ", detail::type_name(get()),
            ", not a ", detail::type_name(typeid(M)));
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
}  // namespace detail

template <class F, class... Inputs>
auto Module::call(const F& forward, Inputs&... inputs)
    -> std::invoke_result_t<const F&, Inputs&...> {
  const detail::Running running(*this, inputs...);
  try {
    if (hooks_.empty() && !detail::has_observer()) return forward(inputs...);
    // Hooks may replace the inputs: copies of those that the caller passed as constants.
    std::tuple<std::conditional_t<std::is_const_v<Inputs>, std::remove_const_t<Inputs>, Inputs&>...>
    held(inputs...);
    Tensors tensors = tensors_of(held);
    detail::HookedCall hooked(*this, hooks_, tensors);
    put_tensors(held, tensors);
    auto result = std::apply(forward, held);
    tensors = tensors_of(result);
    hooked.finish(tensors);
    put_tensors(result, tensors);
    return result;
  } catch (Error& error) {
    running.add_place_to(error);
    throw;
  }
}

/// `module`, moved and converted: auto net = to(Net(), Device::cuda()).
template <std::derived_from<Module> M, class Where>
requires(std::same_as<Where, Device> || std::same_as<Where, DType>) M to(M module, Where where) {
  module.to(where);
  return module;
}

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
