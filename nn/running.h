#pragma once
// Running: the modules that run on this thread, from the outermost to the innermost. Module::call
// makes one for each call. They give names to errors and profiles, and find leaves that no visit
// shows (nn/shown.h) and layers that eval() has not reached.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "autograd/each_tensor.h"
#include "autograd/grad_mode.h"
#include "tensor/record_function.h"
#include "tensor/tensor.h"

namespace rondo::nn {

class Module;

namespace detail {

/// "Conv2d" for rondo::nn::Conv2d.
std::string type_name(const Module& module);
std::string type_name(const std::type_info& type);

/// While this object lives, `module` is the innermost one running on this thread, with the tensors
/// of `inputs`. Under AnomalyMode, and while a profiler records, it opens a scope such as
/// "layer1.0.conv1": the path from the calling module to this one.
class Running {
 public:
  template <class... Inputs>
  explicit Running(Module& module, const Inputs&... inputs) : Running(Begin(), module) {
    if (caller_ != nullptr) return;
    [[maybe_unused]] const auto add = [this](const std::string&, const Tensor& x) { add_input(x); };
    (each_tensor(inputs, add), ...);
  }
  ~Running();
  /// The outermost running module of this thread, or null.
  static const Running* outermost();
  Module& module() const { return module_; }
  bool is_input(const Tensor& x) const;
  /// The innermost running module of this thread; there must be one.
  static Module& innermost();
  /// Appends the module's path in the outermost running module, and its type, to the error's
  /// message: "(in layer1.0.conv1: Conv2d)". Not if the message begins with the type and there is
  /// no path, and not to that of a CommError, which ranks compare.
  void add_place_to(Error& error) const;
  /// Throws the error of Module::is_training.
  static void require_eval_reached(const Module& module);
  /// Notes that a walk has reached `module` as a child of another module.
  static void set_part(Module& module);
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  struct Begin {};
  std::string path() const;
  Running(Begin, Module& module);
  void add_input(const Tensor& x) {
    if (!x.defined()) return;
    if (num_inputs_ < inputs_.size())
      inputs_[num_inputs_++] = &x.impl();
    else
      more_inputs_.push_back(&x.impl());
  }

  Module& module_;
  Running* caller_;
  std::array<const TensorImpl*, 8> inputs_ = {};  // of the outermost one
  std::size_t num_inputs_ = 0;
  std::vector<const TensorImpl*> more_inputs_ = {};
  std::string name_;
  std::optional<ScopeName> scope_;
  RecordFunction range_;
};

}  // namespace detail
}  // namespace rondo::nn
