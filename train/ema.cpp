#include "train/ema.h"

#include <exception>
#include <map>

#include "autograd/grad_mode.h"
#include "tensor/error.h"

namespace rondo::train {
namespace {

Tensors tensors_of(const nn::StateDict& named) {
  Tensors all;
  for (const nn::NamedTensor& entry : named) all.push_back(entry.tensor);
  return all;
}

}  // namespace

Ema::Ema(nn::Module& model, double decay)
    : model_(model), update_(optim::get_ema_multi_avg_fn(decay)) {
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : model.named_parameters())
    averages_.push_back({name, parameter.detach().clone()});
}

void Ema::update(std::int64_t n) {
  const NoGradGuard no_grad;
  const Tensors averages = tensors_of(averages_), values = model_.parameters();
  if (n > 1) return update_(averages, values, n - 1);
  for (std::size_t i = 0; i < averages.size(); ++i) averages[i].copy_(values[i]);
}

nn::StateDict Ema::state_dict() const {
  const NoGradGuard no_grad;
  // By address, because a shared weight has several names there.
  std::map<const void*, Tensor> average_of;
  const Tensors parameters = model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].numel() > 0)  // otherwise it has no address of its own
      average_of[parameters[i].data_ptr()] = averages_[i].tensor;
  nn::StateDict state = model_.state_dict();
  for (auto& [name, tensor] : state) {
    const auto average = tensor.numel() > 0 ? average_of.find(tensor.data_ptr()) : average_of.end();
    tensor = (average != average_of.end() ? average->second : tensor.detach()).clone();
  }
  return state;
}

Ema::Applied::Applied(const Ema& ema) : parameters_(ema.model_.parameters()) {
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    own_.push_back(parameters_[i].detach().clone());
    parameters_[i].copy_(ema.averages_[i].tensor);
  }
}

Ema::Applied::~Applied() {
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    try {
      parameters_[i].copy_(own_[i]);
    } catch (const Error&) {
      // A lost GPU: every later call on it reports that. Otherwise the program ends here, and says
      // why.
      if (parameters_[i].device().is_cpu()) std::terminate();
    }
  }
}

}  // namespace rondo::train
