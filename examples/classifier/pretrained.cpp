#include "pretrained.h"

#include <algorithm>

#include "hub/pretrained.h"
#include "tensor/error.h"

namespace examples {

using namespace rondo;

namespace {

const Tensor* find(const nn::StateDict& state, const std::string& name) {
  const auto found = std::ranges::find(state, name, &nn::NamedTensor::name);
  return found == state.end() ? nullptr : &found->tensor;
}

}  // namespace

std::optional<Pretrained> recognise(const nn::StateDict& state) {
  Pretrained p;
  const nn::StateDict bare = io::apply(hub::PretrainedOptions().keys, state);
  const bool has_linear = find(bare, "linear.weight") != nullptr;
  p.state = io::apply(hub::cifar_key_rules(), bare);
  bool has_downsample = false, has_fourth_stage = false;
  for (const nn::NamedTensor& entry : p.state) {
    has_downsample |= entry.name.find(".downsample.") != std::string::npos;
    has_fourth_stage |= entry.name.starts_with("layer4.");
  }
  const Tensor *first = find(p.state, "conv1.weight"), *last = find(p.state, "fc.weight");
  if (first == nullptr || last == nullptr || has_fourth_stage ||
      first->shape() != Dims{16, 3, 3, 3} || last->dim() != 2 || last->size(1) != 64)
    return {};
  std::int64_t blocks = 0;
  for (const nn::NamedTensor& entry : p.state)
    blocks += entry.name.starts_with("layer1.") && entry.name.ends_with(".conv1.weight") ? 1 : 0;
  p.model = concat("resnet", 6 * blocks + 2);
  if (std::ranges::find(nn::model_names(), p.model) == nn::model_names().end() ||
      (last->size(0) != 10 && last->size(0) != 100))
    return {};
  p.shortcut = has_downsample ? nn::Shortcut::b : nn::Shortcut::a;
  p.classes = last->size(0);
  if (has_linear) {
    p.family = "akamaster/pytorch_resnet_cifar10";
    p.mean = {0.485F, 0.456F, 0.406F};
    p.std = {0.229F, 0.224F, 0.225F};
  } else if (has_downsample) {
    p.family = "chenyaofo/pytorch-cifar-models";  // and rondo, which keeps them in checkpoints
    if (p.classes == 100) {
      p.mean = {0.5070F, 0.4865F, 0.4409F};
      p.std = {0.2673F, 0.2564F, 0.2761F};
    } else {
      p.mean = {0.4914F, 0.4822F, 0.4465F};
      p.std = {0.2023F, 0.1994F, 0.2010F};
    }
  } else {
    p.family = "rondo";
  }
  return p;
}

}  // namespace examples
