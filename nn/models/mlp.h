#pragma once
// Mlp: the network of the Fashion-MNIST tutorials, flatten - 784 - 512 - 512 - 10. Parameter names
// are those of PyTorch's quickstart ("linear_relu_stack.0.weight" …), so its checkpoints load here.

#include "nn/containers.h"
#include "nn/flatten.h"
#include "nn/module.h"

namespace rondo::nn {

struct MlpOptions {
  std::int64_t in_features = 784;  // 28 x 28 pixels
  std::int64_t hidden = 512;
  std::int64_t num_classes = 10;
};

/// x (N, ...) with in_features elements per sample to logits (N, num_classes).
struct Mlp : Module {
  Flatten flatten;
  Sequential linear_relu_stack;

  explicit Mlp(MlpOptions options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
