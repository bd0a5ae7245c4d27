#include "nn/hooks.h"

#include <algorithm>

#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "nn/module.h"
#include "nn/observe.h"
#include "tensor/error.h"

namespace rondo::nn::detail {
namespace {

/// Replaces `tensors` by what a hook has returned.
void replace(Tensors& tensors, Tensors found, const char* what, const Module& module) {
  if (found.empty()) return;
  require(found.size() == tensors.size(), what, " of ", type_name(module), ": the hook returned ",
          found.size(), " tensors to replace ", tensors.size());
  tensors = std::move(found);
}

/// Copies of the tensors that are on the tape, with N as their node.
template <class N, class... Args>
bool put_node(Tensors& tensors, Args&&... args) {
  if (!GradMode::is_enabled()) return false;
  Tensors from, to;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || !tensors[i].requires_grad()) continue;
    places.push_back(i);
    from.push_back(tensors[i]);
    to.push_back(no_grad([&] { return tensors[i].clone(); }));
  }
  if (from.empty()) return false;
  record_all<N>(from, to, std::forward<Args>(args)..., places);
  for (std::size_t i = 0; i < places.size(); ++i) tensors[places[i]] = to[i];
  return true;
}

/// `some` at their places among `count` tensors; the others are undefined.
Tensors spread(const Tensors& some, const std::vector<std::size_t>& places, std::size_t count) {
  Tensors all(count);
  for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = some[i];
  return all;
}

/// A list of hooks with numbers. Hooks may have state of their own, which copies of the module
/// share, as in Python.
template <class F>
using HookList = std::vector<std::pair<std::uint64_t, std::shared_ptr<F>>>;

}  // namespace

struct OwnedHooks::Lists {
  HookList<PreHook> before;
  HookList<Hook> after;
  HookList<Hook> backward;
  std::uint64_t next_id = 0;
  Module* owner = nullptr;  // whose forward ran last; null after a move of the module
};

namespace {

template <class F>
HookHandle add(std::shared_ptr<OwnedHooks::Lists>& lists, HookList<F> OwnedHooks::Lists::*list,
               F hook) {
  if (lists == nullptr) lists = std::make_shared<OwnedHooks::Lists>();
  const std::uint64_t id = lists->next_id++;
  (lists.get()->*list).emplace_back(id, std::make_shared<F>(std::move(hook)));
  return HookHandle([weak = std::weak_ptr(lists), list, id] {
    if (const auto alive = weak.lock())
      std::erase_if(alive.get()->*list, [id](const auto& entry) { return entry.first == id; });
  });
}

}  // namespace

OwnedHooks::OwnedHooks(const OwnedHooks& other)
    : lists_(other.lists_ ? std::make_shared<Lists>(*other.lists_) : nullptr) {}
OwnedHooks::OwnedHooks(OwnedHooks&& other) noexcept : lists_(std::move(other.lists_)) {
  if (lists_ != nullptr) lists_->owner = nullptr;
}
OwnedHooks& OwnedHooks::operator=(OwnedHooks other) noexcept {
  lists_ = std::move(other.lists_);
  return *this;
}

bool OwnedHooks::are_empty() const {
  return lists_->before.empty() && lists_->after.empty() && lists_->backward.empty();
}

HookHandle OwnedHooks::add_before(PreHook hook) {
  return add(lists_, &Lists::before, std::move(hook));
}
HookHandle OwnedHooks::add_after(Hook hook) { return add(lists_, &Lists::after, std::move(hook)); }
HookHandle OwnedHooks::add_backward(Hook hook) {
  return add(lists_, &Lists::backward, std::move(hook));
}

/// What the two nodes of one call share.
struct HookedCall::Backward {
  Module* module;
  std::weak_ptr<OwnedHooks::Lists> hooks;
  std::size_t inputs = 0, outputs = 0;
  bool is_at_inputs = false;  // whether an input requires a gradient
  Tensors grad_output = {};

  void run(Tensors& grad_input) {
    const std::shared_ptr<OwnedHooks::Lists> alive = hooks.lock();
    require<AutogradError>(alive != nullptr && alive->owner == module,
                           "register_full_backward_hook: the module was destroyed or moved before "
                           "backward");
    const auto list = alive->backward;  // a hook may remove itself
    for (const auto& [id, hook] : list)
      replace(grad_input, (*hook)(*module, grad_input, grad_output), "register_full_backward_hook",
              *module);
    grad_output.clear();
  }
};

struct HookedCall::AtOutputs final : Node {
  std::shared_ptr<Backward> call;
  std::vector<std::size_t> places;
  AtOutputs(std::shared_ptr<Backward> call, std::vector<std::size_t> places)
      : call(std::move(call)), places(std::move(places)) {}
  const char* name() const override { return "full_backward_hook"; }
  Tensors backward(const Tensors& dy) override {
    call->grad_output = spread(dy, places, call->outputs);
    if (!call->is_at_inputs) {
      Tensors none(call->inputs);
      call->run(none);
    }
    return dy;
  }
};

struct HookedCall::AtInputs final : Node {
  std::shared_ptr<Backward> call;
  std::vector<std::size_t> places;
  AtInputs(std::shared_ptr<Backward> call, std::vector<std::size_t> places)
      : call(std::move(call)), places(std::move(places)) {}
  const char* name() const override { return "full_backward_hook"; }
  Tensors backward(const Tensors& dy) override {
    Tensors grad_input = spread(dy, places, call->inputs), dx;
    call->run(grad_input);
    for (const std::size_t place : places) dx.push_back(grad_input[place]);
    return dx;
  }
};

HookedCall::HookedCall(Module& module, const OwnedHooks& hooks, Tensors& inputs)
    : module_(module), hooks_(hooks.get()) {
  if (hooks_ != nullptr) {
    hooks_->owner = &module;
    const auto list = hooks_->before;
    for (const auto& [id, hook] : list)
      replace(inputs, (*hook)(module, inputs), "register_forward_pre_hook", module);
    if (!hooks_->backward.empty()) {
      backward_ = std::make_shared<Backward>(Backward{.module = &module, .hooks = hooks_});
      backward_->inputs = inputs.size();
      backward_->is_at_inputs = put_node<AtInputs>(inputs, backward_);
    }
  }
  inputs_ = inputs;
}

void HookedCall::finish(Tensors& outputs) {
  if (hooks_ != nullptr) {
    const auto list = hooks_->after;
    for (const auto& [id, hook] : list)
      replace(outputs, (*hook)(module_, inputs_, outputs), "register_forward_hook", module_);
    if (backward_ != nullptr) {
      backward_->outputs = outputs.size();
      put_node<AtOutputs>(outputs, backward_);
    }
  }
  observe(module_, inputs_, outputs);
}

}  // namespace rondo::nn::detail
