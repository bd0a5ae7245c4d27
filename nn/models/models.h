#pragma once
// Models by name, as given on the command line of programs.

#include <string>
#include <string_view>
#include <vector>

#include "nn/models/cifar_resnet.h"
#include "nn/models/mlp.h"
#include "nn/models/resnet.h"
#include "nn/module.h"

namespace rondo::nn {

struct ModelOptions {
  std::int64_t num_classes = 10;
  std::int64_t in_channels = 3;     // of all except the MLP
  std::int64_t in_features = 784;   // of the MLP: pixels times channels
  Stem stem = Stem::cifar;          // of resnet18 … resnet152
  Shortcut shortcut = Shortcut::a;  // of resnet20 … resnet110
  bool zero_init_residual = false;  // of resnet18 … resnet152
  bool grad_checkpointing = false;  // of the ResNets: saves memory at the cost of time, block by
                                    // block
  std::int64_t image_size = 224;    // of vit_b_16
};

/// "mlp", "resnet20" … "resnet110" (CifarResNet), "resnet18" … "resnet152" (ResNet), and
/// torchvision's "vgg11" … "vgg19_bn", "mobilenet_v2", "efficientnet_b0", "convnext_tiny",
/// "densenet121", "vit_b_16", which are made for images of 224 x 224 pixels.
const std::vector<std::string>& model_names();
/// Throws Error for an unknown name, listing the known ones, and for grad_checkpointing where it is
/// not one of the ResNets.
AnyModule make_model(std::string_view name, const ModelOptions& options = {});

}  // namespace rondo::nn
