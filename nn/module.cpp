// All functions of Module are built on `visit`: each function below is one walk (walk.h) through a
// tree of modules. Copies of modules: clone.cpp.

#include "nn/module.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/checkpoint.h"
#include "nn/walk.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/printable.h"

namespace rondo::nn {

using detail::join;
using detail::Members;
using detail::Named;
using detail::walk;

namespace {

/// Appends the tensors that were not seen before.
void append_new(std::vector<NamedTensor>& out, std::unordered_set<const TensorImpl*>& seen,
                const std::string& path, const Named<Tensor>& tensors) {
  for (auto& [name, tensor] : tensors) {
    if (seen.insert(&tensor->impl()).second) out.push_back({join(path, name), *tensor});
  }
}

std::string listed(const std::string& what, const std::vector<std::string>& keys) {
  std::string text = "\n  " + what + ": ";
  for (std::size_t i = 0; i < keys.size(); ++i) text += (i ? ", " : "") + printable(keys[i]);
  return keys.empty() ? "" : text;
}

/// A hint, if all keys that only one side has begin with the same prefix and the other side's keys
/// do not, or if the state dict is that of a training checkpoint.
std::string about_prefix(const Module::LoadReport& report) {
  if (report.missing_keys.empty() || report.unexpected_keys.empty()) return "";
  const bool in_file = report.unexpected_keys[0].size() > report.missing_keys[0].size();
  const auto &longer = in_file ? report.unexpected_keys : report.missing_keys,
             &shorter = in_file ? report.missing_keys : report.unexpected_keys;
  if (!longer[0].ends_with('.' + shorter[0])) return "";
  const std::string prefix = longer[0].substr(0, longer[0].size() - shorter[0].size());
  const auto has_it = [&](const std::string& key) { return key.starts_with(prefix); };
  const auto is_of_optimizer = [](const std::string& key) { return key.starts_with("optimizer."); };
  if (prefix == "model." && std::ranges::any_of(longer, is_of_optimizer))
    return "\n  the state dict is that of a training checkpoint: io::load_checkpoint reads it";
  if (!std::ranges::all_of(longer, has_it)) return "";
  return concat("\n  the keys of the ", in_file ? "state dict" : "model", " begin with \"",
                printable(prefix), "\", those of the ", in_file ? "model" : "state dict", " do not",
                prefix == "module." ? " (DataParallel adds it; its module() has none)" : "",
                ": rename them first");
}

bool may_be_absent(const std::string& name) { return name.ends_with("num_batches_tracked"); }

/// Whether a and b are two names of a shared weight.
bool is_one_weight(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.storage_offset() == b.storage_offset() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

}  // namespace

bool Module::is_training() const {
  const Module& module = self();
  if (module.training_ && !module.mode_is_set_) detail::Running::require_eval_reached(module);
  return module.training_;
}

namespace {

/// Releases the tensors of the module that set_submodule replaces at `path`, and of the modules
/// below it. Other tensors may still share them.
void clear(Module& module, const std::string& path) {
  walk(module, [&](const std::string& below, Module& owner, Members& members) {
    const std::string place = below.empty() ? path : join(path, below);
    for (auto* tensors : {&members.parameters, &members.buffers}) {
      for (auto& [name, tensor] : *tensors)
        *tensor = Tensor::undefined(
            concat("it was \"", name, "\" of the ", detail::type_name(owner), " at \"", place,
                   "\", which set_submodule has replaced; use the module that was put there"));
    }
  });
}

/// Finds the child of that name as `visit` shows it, without self().
struct FindChild final : Visitor {
  explicit FindChild(std::string_view name) : name(name) {}
  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void child(std::string_view child_name, Module& module) override {
    if (child_name == name) found = &module;
  }
  std::string_view name;
  Module* found = nullptr;
};

}  // namespace

void Module::set_submodule(const std::string& path, AnyModule module) {
  require(module.has_value(), "set_submodule: the new module for \"", path, "\" is empty");
  Module* place = this;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    FindChild find(std::string_view(path).substr(begin, end - begin));
    place->self().visit(find);
    require(find.found != nullptr, "set_submodule: no module has the path \"", path, "\"");
    place = find.found;
    begin = end + 1;
  }
  clear(place->self(), path);
  if (auto* any = dynamic_cast<AnyModule*>(place)) {
    *any = std::move(module);
  } else {
    place->substitute_ = detail::OwnedModule(std::move(module));
  }
}

Tensor Module::operator()(const Tensor& x) {
  Module& module = self();
  return module.call([&](const Tensor& in) { return module.forward(in); }, x);
}

Module& Module::train(bool on) {
  return apply([on](Module& module) {
    module.training_ = on;
    module.mode_is_set_ = true;
  });
}

std::vector<Tensor> Module::parameters() {
  std::vector<Tensor> out;
  for (auto& [name, tensor] : named_parameters()) out.push_back(tensor);
  return out;
}

std::vector<NamedTensor> Module::named_parameters() {
  std::vector<NamedTensor> out;
  std::unordered_set<const TensorImpl*> seen;
  walk(self(), [&](const std::string& path, Module&, Members& members) {
    append_new(out, seen, path, members.parameters);
  });
  return out;
}

std::vector<NamedTensor> Module::named_buffers() {
  std::vector<NamedTensor> out;
  std::unordered_set<const TensorImpl*> seen;
  walk(self(), [&](const std::string& path, Module&, Members& members) {
    append_new(out, seen, path, members.buffers);
  });
  return out;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> out;
  walk(self(),
       [&](const std::string& path, Module& module, Members&) { out.emplace_back(path, &module); });
  return out;
}

namespace {

std::vector<Module*> without_names(const Named<Module>& modules) {
  std::vector<Module*> out;
  for (const auto& [name, module] : modules) out.push_back(module);
  return out;
}

/// The tensor called `path` in `lists` of the modules of a tree.
Tensor tensor_at(Module& root, const std::string& path, const char* function,
                 Named<Tensor> Members::*list) {
  std::vector<std::string> names;
  Tensor found;
  walk(root, [&](const std::string& owner, Module&, Members& members) {
    for (const auto& [name, tensor] : members.*list) {
      names.push_back(join(owner, name));
      if (names.back() == path) found = *tensor;
    }
  });
  require(found.defined(), function, ": the model has no \"", path, '"',
          detail::similar_names(path, names));
  return found;
}

}  // namespace

std::vector<Module*> Module::modules() { return without_names(named_modules()); }
std::vector<std::pair<std::string, Module*>> Module::named_children() {
  return Members(self()).children;
}
std::vector<Module*> Module::children() { return without_names(named_children()); }

Module& Module::get_submodule(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, module] : named_modules()) {
    if (name == path) return *module;
    names.push_back(name);
  }
  throw Error(concat("get_submodule: no module has the path \"", path, '"',
                     detail::similar_names(path, names)));
}
Tensor Module::get_parameter(const std::string& path) {
  return tensor_at(self(), path, "get_parameter", &Members::parameters);
}
Tensor Module::get_buffer(const std::string& path) {
  return tensor_at(self(), path, "get_buffer", &Members::buffers);
}

std::int64_t Module::num_parameters() {
  std::int64_t n = 0;
  for (const Tensor& p : parameters()) n += p.numel();
  return n;
}

Module& Module::to(DType dtype) {
  require<DTypeError>(is_floating(dtype), "Module::to: ", dtype, " is not a floating-point dtype");
  NoGradGuard no_grad;
  walk(self(), [dtype](const std::string&, Module& module, Members& members) {
    DType stored = module.stored_dtype(dtype);
    for (auto* tensors : {&members.parameters, &members.buffers}) {
      for (auto& [name, tensor] : *tensors) {
        if (is_floating(tensor->dtype()) && tensor->dtype() != stored) {
          tensor->set_data(tensor->detach().to(stored));
        }
      }
    }
  });
  return *this;
}

namespace {

/// A copy on a device. The weights of convolutions get the layout that the device's kernels read:
/// on a GPU channels_last, like the images, so that no use of them needs a copy.
Tensor moved(const Tensor& x, Device device) {
  const Tensor copy = x.detach().to(device);
  if (x.dim() != 4 || !is_floating(x.dtype())) return copy;
  return copy.contiguous(device.is_cuda() ? backend(device).conv2d_format(x.dtype())
                                          : MemoryFormat::contiguous);
}

}  // namespace

Module& Module::to(Device device) {
  NoGradGuard no_grad;
  const AllocationTag tag("parameters");
  walk(self(), [device](const std::string&, Module&, Members& members) {
    for (auto* tensors : {&members.parameters, &members.buffers}) {
      for (auto& [name, tensor] : *tensors) {
        if (tensor->device() != device) tensor->set_data(moved(*tensor, device));
      }
    }
  });
  return *this;
}

void Module::zero_grad() {
  for (const Tensor& p : parameters()) p.zero_grad();
}

Module& Module::requires_grad_(bool value) {
  for (const Tensor& p : parameters()) p.requires_grad_(value);
  return *this;
}

StateDict Module::state_dict() {
  StateDict out;
  walk(self(), [&](const std::string& path, Module&, Members& members) {
    for (auto* tensors : {&members.parameters, &members.buffers}) {
      for (auto& [name, tensor] : *tensors)
        if (!members.left_out.contains(tensor)) out.push_back({join(path, name), tensor->detach()});
    }
  });
  return out;
}

Module::LoadReport Module::load_state_dict(const StateDict& state, LoadOptions options) {
  std::unordered_map<std::string, const Tensor*> given;
  for (const auto& [name, tensor] : state)
    require(given.emplace(name, &tensor).second, "load_state_dict: two tensors called \"",
            printable(name), "\", nothing was loaded");

  LoadReport report;
  StateDict absent;
  std::vector<std::pair<Tensor, const Tensor*>> copies;
  for (const auto& [name, tensor] : state_dict()) {
    auto found = given.find(name);
    if (found == given.end()) {
      if (!may_be_absent(name)) absent.push_back({name, tensor});
      continue;
    }
    const Tensor& source = *found->second;
    given.erase(found);
    if (!source.defined() || source.shape() != tensor.shape()) {
      report.misshapen_keys.push_back(
          source.defined() ? concat(name, " (", source.shape(), " for ", tensor.shape(), ")")
                           : concat(name, " (an undefined tensor)"));
    } else {
      copies.emplace_back(tensor, &source);
    }
  }
  for (const auto& [name, tensor] : absent) {
    const auto is_it = [&, &tensor = tensor](const auto& copy) {
      return is_one_weight(copy.first, tensor);
    };
    if (std::ranges::none_of(copies, is_it)) report.missing_keys.push_back(name);
  }
  for (const auto& [name, tensor] : state) {
    if (given.contains(name)) report.unexpected_keys.push_back(name);
  }

  bool bad = !report.misshapen_keys.empty() ||
             (options.strict && !(report.missing_keys.empty() && report.unexpected_keys.empty()));
  require(!bad, "load_state_dict: the state dict is not this model's, nothing was loaded",
          listed("missing keys", report.missing_keys),
          listed("unexpected keys", report.unexpected_keys),
          listed("misshapen keys", report.misshapen_keys), about_prefix(report));

  NoGradGuard no_grad;
  for (auto& [tensor, source] : copies) tensor.copy_(*source);
  return report;
}

Module& Module::apply(const std::function<void(Module&)>& f) {
  Module& module = self();
  for (auto& [name, child] : Members(module).children) child->apply(f);
  f(module);
  return *this;
}

Module& AnyModule::get() const {
  require(has_value(), "AnyModule: it is empty; assign a module first");
  return held_.get()->self();
}

}  // namespace rondo::nn
