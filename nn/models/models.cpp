// Models by name (see models.h).

#include "nn/models/models.h"

#include <algorithm>

#include "nn/models/convnext.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/mobilenet_v2.h"
#include "nn/models/vgg.h"
#include "nn/models/vit.h"

namespace rondo::nn {

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {
      "mlp",      "resnet20",     "resnet32", "resnet44",      "resnet56",    "resnet110",
      "resnet18", "resnet34",     "resnet50", "resnet101",     "resnet152",   "vgg11",
      "vgg13",    "vgg16",        "vgg19",    "vgg11_bn",      "vgg13_bn",    "vgg16_bn",
      "vgg19_bn", "mobilenet_v2", "vit_b_16", "convnext_tiny", "densenet121", "efficientnet_b0"};
  return names;
}

AnyModule make_model(std::string_view name, const ModelOptions& options) {
  const auto& names = model_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    std::string known;
    for (const auto& each : names) known += (known.empty() ? "" : ", ") + each;
    throw Error(concat("unknown model \"", name, "\"; use one of ", known));
  }
  require(!options.grad_checkpointing || name.starts_with("resnet"), name,
          ": grad_checkpointing is for the ResNets");
  const std::int64_t num_classes = options.num_classes, in_channels = options.in_channels;
  if (name == "mlp") return Mlp({.in_features = options.in_features, .num_classes = num_classes});
  if (name.starts_with("vgg"))
    return VGG({.depth = std::stoll(std::string(name.substr(3))),
                .batch_norm = name.ends_with("_bn"),
                .num_classes = num_classes,
                .in_channels = in_channels});
  if (name == "mobilenet_v2")
    return MobileNetV2({.num_classes = num_classes, .in_channels = in_channels});
  if (name == "efficientnet_b0")
    return EfficientNet({.num_classes = num_classes, .in_channels = in_channels});
  if (name == "convnext_tiny")
    return ConvNeXt({.num_classes = num_classes, .in_channels = in_channels});
  if (name == "densenet121")
    return DenseNet({.num_classes = num_classes, .in_channels = in_channels});
  if (name == "vit_b_16")
    return VisionTransformer(
        {.image_size = options.image_size, .num_classes = num_classes, .in_channels = in_channels});
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
