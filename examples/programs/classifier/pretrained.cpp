#include "pretrained.h"

#include <algorithm>

#include "extras/hub/pretrained.h"
#include "extras/torch_files/torch_pickle.h"
#include "tensor/error.h"

namespace examples {

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

const Tensor* find(const nn::StateDict& state, const std::string& name) {
  const auto found = std::ranges::find(state, name, &nn::NamedTensor::name);
  return found == state.end() ? nullptr : &found->tensor;
}

/// The prefix of the first convolution's name. It is "module." or "model." if the network was saved
/// as a part of another module.
std::string prefix_of(const nn::StateDict& state) {
  constexpr std::string_view first = "conv1.weight";
  for (const nn::NamedTensor& entry : state) {
    const std::string& name = entry.name;
    if (name.ends_with(first) && name.find("layer") == std::string::npos &&
        (name.size() == first.size() || name[name.size() - first.size() - 1] == '.'))
      return name.substr(0, name.size() - first.size());
  }
  return {};
}

nn::StateDict without(const std::string& prefix, nn::StateDict state) {
  for (nn::NamedTensor& entry : state) {
    if (entry.name.starts_with(prefix)) entry.name.erase(0, prefix.size());
  }
  return state;
}

}  // namespace

const std::vector<Normalisation>& usual_normalisations() {
  static const std::vector<Normalisation> all = {
      {"0.4914,0.4822,0.4465", "0.247,0.2435,0.2616", "CIFAR-10, deviation of its pixels"},
      {"0.4914,0.4822,0.4465", "0.2023,0.1994,0.201", "CIFAR-10, mean deviation of its images"},
      {"0.5071,0.4865,0.4409", "0.2673,0.2564,0.2762", "CIFAR-100"},
      {"0.485,0.456,0.406", "0.229,0.224,0.225", "ImageNet"},
      {"0.5,0.5,0.5", "0.5,0.5,0.5", "values from -1 to 1"},
      {"0,0,0", "1,1,1", "values from 0 to 1"}};
  return all;
}

Recognition recognise(const nn::StateDict& state) {
  Pretrained p;
  const nn::StateDict bare = without(prefix_of(state), state);
  const bool has_linear = find(bare, "linear.weight") != nullptr;
  p.state = rd::io::apply(rd::hub::cifar_key_rules(), bare);
  bool has_downsample = false, has_fourth_stage = false;
  for (const nn::NamedTensor& entry : p.state) {
    has_downsample |= entry.name.find(".downsample.") != std::string::npos;
    has_fourth_stage |= entry.name.starts_with("layer4.");
  }
  const Tensor *first = find(p.state, "conv1.weight"), *last = find(p.state, "fc.weight");
  if (first == nullptr) return {.lacks = "it has no conv1.weight"};
  if (first->shape() != rd::Dims{16, 3, 3, 3})
    return {.lacks = rd::concat("its conv1.weight is ", first->shape(), ", not [16, 3, 3, 3]")};
  if (has_fourth_stage) return {.lacks = "it has a layer4, and only three stages are known"};
  if (last == nullptr) return {.lacks = "it has no fc.weight or linear.weight"};
  if (last->dim() != 2 || last->size(1) != 64)
    return {.lacks =
                rd::concat("its last layer's weight is ", last->shape(), ", not [classes, 64]")};
  std::int64_t blocks = 0;
  for (const nn::NamedTensor& entry : p.state)
    blocks += entry.name.starts_with("layer1.") && entry.name.ends_with(".conv1.weight") ? 1 : 0;
  p.model = rd::concat("resnet", 6 * blocks + 2);
  if (std::ranges::find(nn::model_names(), p.model) == nn::model_names().end())
    return {.lacks = rd::concat("with ", blocks, " blocks in layer1 it would be a ", p.model,
                                ", which rondo does not have")};
  if (last->size(0) != 10 && last->size(0) != 100)
    return {.lacks = rd::concat("it knows ", last->size(0), " classes, not 10 or 100")};
  p.shortcut = has_downsample ? nn::Shortcut::b : nn::Shortcut::a;
  p.classes = last->size(0);
  if (has_linear) {
    p.family = "akamaster/pytorch_resnet_cifar10";
    p.mean = {0.485F, 0.456F, 0.406F};
    p.std = {0.229F, 0.224F, 0.225F};
  } else if (has_downsample) {
    p.family = "chenyaofo/pytorch-cifar-models";  // rondo uses the same names in checkpoints
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
  return {.found = std::move(p)};
}

}  // namespace examples
