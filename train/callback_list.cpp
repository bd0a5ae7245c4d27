#include "train/callback_list.h"

#include <string_view>

#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::train {
namespace {

constexpr std::string_view prefix = "callback.";  // of the callbacks' state in the metadata

/// FitOptions::on_epoch.
struct EpochFunction final : Callback {
  explicit EpochFunction(std::function<bool(const EpochReport&)> f) : f(std::move(f)) {}
  bool on_epoch_end(const EpochReport& report) override { return f(report); }
  std::function<bool(const EpochReport&)> f;
};

}  // namespace

CallbackList::CallbackList(std::vector<std::shared_ptr<Callback>> callbacks,
                           std::function<bool(const EpochReport&)> on_epoch)
    : callbacks_(std::move(callbacks)) {
  for (const auto& callback : callbacks_)
    require(callback != nullptr, "fit: one of the callbacks is null");
  if (on_epoch) callbacks_.push_back(std::make_shared<EpochFunction>(std::move(on_epoch)));
  io::Metadata remembered;
  for (const auto& callback : callbacks_)
    for (const auto& [name, value] : callback->state_dict())
      require(remembered.emplace(name, value).second,
              "fit: two callbacks have state with the name ", name, "; the names must be unique");
}

void CallbackList::on_train_begin(std::int64_t epochs) {
  for (const auto& callback : callbacks_) callback->on_train_begin(epochs);
}

void CallbackList::on_step_end(const StepReport& step) {
  for (const auto& callback : callbacks_) callback->on_step_end(step);
}

bool CallbackList::on_epoch_end(const EpochReport& report, dist::Communicator& comm) {
  // Also if this rank has no callback: another rank may have one.
  bool goes_on = true;
  for (const auto& callback : callbacks_) goes_on = callback->on_epoch_end(report) && goes_on;
  const Tensor all_go_on = full({1}, goes_on, {.dtype = i32});
  comm.all_reduce(all_go_on, dist::ReduceOp::min);
  return all_go_on.item<int>() != 0;
}

void CallbackList::on_train_end(const FitResult& result) {
  for (const auto& callback : callbacks_) callback->on_train_end(result);
}

void CallbackList::save(io::Metadata& metadata) const {
  for (const auto& callback : callbacks_) {
    for (const auto& [name, value] : callback->state_dict()) metadata[concat(prefix, name)] = value;
  }
}

void CallbackList::restore(const io::Metadata& metadata) {
  io::Metadata state;
  for (const auto& [name, value] : metadata)
    if (name.starts_with(prefix)) state[name.substr(prefix.size())] = value;
  for (const auto& callback : callbacks_) callback->load_state_dict(state);
}

}  // namespace rondo::train
