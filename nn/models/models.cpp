// Models by name (see models.h).

#include "nn/models/models.h"

#include <algorithm>

namespace rondo::nn {

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"mlp",      "resnet20",  "resnet32", "resnet44",
                                                 "resnet56", "resnet110", "resnet18", "resnet34",
                                                 "resnet50", "resnet101", "resnet152"};
  return names;
}

AnyModule make_model(std::string_view name, const ModelOptions& options) {
  const auto& names = model_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    std::string known;
    for (const auto& each : names) known += (known.empty() ? "" : ", ") + each;
    throw Error(concat("unknown model \"", name, "\"; use one of ", known));
  }
  if (name == "mlp") {
    require(!options.grad_checkpointing, "mlp: grad_checkpointing is for models made of blocks");
    return Mlp({.in_features = options.in_features, .num_classes = options.num_classes});
  }
  std::int64_t depth = std::stoll(std::string(name.substr(6)));
  if ((depth - 2) % 6 == 0 && depth != 50 && depth != 152) {
    return CifarResNet({.depth = depth,
                        .num_classes = options.num_classes,
                        .in_channels = options.in_channels,
                        .shortcut = options.shortcut,
                        .grad_checkpointing = options.grad_checkpointing});
  }
  return ResNet({.depth = depth,
                 .num_classes = options.num_classes,
                 .in_channels = options.in_channels,
                 .stem = options.stem,
                 .zero_init_residual = options.zero_init_residual,
                 .grad_checkpointing = options.grad_checkpointing});
}

}  // namespace rondo::nn
