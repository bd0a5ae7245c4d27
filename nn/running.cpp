#include "nn/running.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <unordered_set>

#include "autograd/accumulate_grad.h"
#include "autograd/checkpoint.h"
#include "nn/module.h"
#include "nn/shown.h"

namespace rondo::nn::detail {

namespace {

thread_local Running* innermost_running = nullptr;
thread_local const Running* outermost_running = nullptr;
thread_local std::uint64_t nodes_before = 0;  // the outermost module began to run

/// The path from a module to a child, or to any module inside it; empty if it is not there. Unlike
/// a walk, this does not mark tensors as shown (nn/shown.h).
struct PathTo final : Visitor {
  PathTo(Module& from, const Module& to, bool is_child) : to_(to), is_child_(is_child) {
    from.visit(*this);
  }
  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void child(std::string_view name, Module& module) override {
    Module& inner = module.self();
    const std::string here = concat(above_, above_.empty() ? "" : ".", name);
    if (&inner == &to_) path = here;
    if (is_child_ || !path.empty() || !seen_.insert(&inner).second) return;
    const std::string above = std::exchange(above_, here);
    inner.visit(*this);
    above_ = above;
  }
  std::string path;

 private:
  const Module& to_;
  bool is_child_;
  std::string above_;
  std::unordered_set<const Module*> seen_;
};

/// Tries children first, because most are children and that search is fast.
std::string path_between(Module& from, const Module& to) {
  const std::string path = PathTo(from, to, true).path;
  return path.empty() ? PathTo(from, to, false).path : path;
}

/// Throws if a parameter that the module itself shows is the result of an op that was recorded
/// before the outermost module began to run, as after fc.weight = clamp(fc.weight, -1, 1). The
/// gradient would go to the tensor before the op, and the next backward would run the op again.
/// Parameters that a forward computes (replicas, reparametrizations) are meant.
struct RequireLeaves final : Visitor {
  RequireLeaves(Module& module, Module& outermost) : module_(module), outermost_(outermost) {
    module.visit(*this);
  }
  void parameter(std::string_view name, Tensor& x) override {
    if (!x.defined() || !x.impl().autograd || !x.impl().autograd->grad_fn) return;
    const Node& node = *x.impl().autograd->grad_fn;
    if (node.sequence >= nodes_before) return;
    const std::string path = &outermost_ == &module_ ? "" : path_between(outermost_, module_);
    throw AutogradError(concat(
        type_name(outermost_), ": its parameter \"", path, path.empty() ? "" : ".", name,
        "\" was replaced by the result of ", node.name(),
        ", so no optimizer trains it; write its elements under NoGradGuard instead (weight.copy_(",
        node.name(), "(…))), or replace it by a leaf before the optimizer is made"));
  }
  void buffer(std::string_view, Tensor&) override {}
  void child(std::string_view, Module&) override {}

 private:
  const Module& module_;
  Module& outermost_;
};

}  // namespace

std::string type_name(const Module& module) { return type_name(typeid(module)); }

std::string type_name(const std::type_info& type) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), std::free);
  std::string name = text ? text.get() : type.name();
  int depth = 0;  // nesting of template arguments, whose names contain colons, too
  for (std::size_t i = name.size(); i-- > 0;) {
    depth += name[i] == '>' ? 1 : name[i] == '<' ? -1 : 0;
    if (depth == 0 && name[i] == ':') {
      name.erase(0, i + 1);
      break;
    }
  }
  // Names of namespaces and classes go; a function whose local class this is stays.
  constexpr std::string_view unnamed = "(anonymous namespace)";
  for (std::size_t at = 0; (at = name.find("::", at)) != std::string::npos;) {
    std::size_t first = at;
    while (first > 0 &&
           (std::isalnum(static_cast<unsigned char>(name[first - 1])) || name[first - 1] == '_'))
      --first;
    if (std::string_view(name).substr(0, at).ends_with(unnamed)) first = at - unnamed.size();
    if (first == at) {
      at += 2;
    } else {
      name.erase(first, at + 2 - first);
      at = first;
    }
  }
  return name;
}

Running::Running(Begin, Module& module) : module_(module), caller_(innermost_running) {
  if (caller_ == nullptr) nodes_before = Node::next_sequence();
  if (GradMode::is_enabled() && !is_recomputing())
    RequireLeaves(module, caller_ == nullptr ? module : outermost_running->module_);
  const bool is_recorded = is_recording();
  if (is_recorded || AnomalyMode::is_enabled()) {
    if (caller_ != nullptr) name_ = path_between(caller_->module_, module);
    if (!name_.empty()) scope_.emplace(name_.c_str());
    if (is_recorded) range_.open(ScopeName::path(), EventKind::module);
  }
  if (caller_ == nullptr) {
    outermost_running = this;
    watch_leaves(module.is_part_);
  }
  innermost_running = this;  // last: if a constructor throws, it must not change this
}

Running::~Running() {
  innermost_running = caller_;
  if (caller_ != nullptr) return;
  outermost_running = nullptr;
  leaf_watch = nullptr;
}

std::string Running::path() const {
  if (caller_ == nullptr) return "";
  const std::string above = caller_->path(), here = path_between(caller_->module_, module_);
  return concat(above, above.empty() || here.empty() ? "" : ".", here);
}

void Running::add_place_to(Error& error) const {
  if (dynamic_cast<const CommError*>(&error) != nullptr) return;
  try {
    const std::string path = this->path(), type = type_name(module_.self());
    if (path.empty() && std::string_view(error.what()).starts_with(type + ':')) return;
    error.add_place(concat(path, path.empty() ? "" : ": ", type));
  } catch (const std::exception&) {  // of a model's own `visit`: the first error counts
  }
}

const Running* Running::outermost() { return outermost_running; }
Module& Running::innermost() { return innermost_running->module_; }
void Running::set_part(Module& module) {
  if (!module.is_part_) module.is_part_ = true;
}
bool Running::is_input(const Tensor& x) const {
  return std::ranges::find(inputs_, &x.impl()) != inputs_.end() ||
         std::ranges::find(more_inputs_, &x.impl()) != more_inputs_.end();
}

void Running::require_eval_reached(const Module& module) {
  if (innermost_running == nullptr || &innermost_running->module_.self() != &module) return;
  for (const Running* r = innermost_running->caller_; r != nullptr; r = r->caller_) {
    require(
        r->module_.is_training(), type_name(module), " runs in training mode, but ",
        type_name(r->module_),
        ", which runs it, is in evaluation mode, and eval() has not reached it; show it in "
        "visit (v.child), call eval() again if it came later, or train() on it if that is meant");
  }
}

}  // namespace rondo::nn::detail
