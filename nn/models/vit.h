#pragma once
// VisionTransformer (Dosovitskiy et al. 2020), with torchvision's keys and initialisation: an image
// is a sequence of patches. The defaults are ViT-B/16, 86,567,656 parameters with 1000 classes.

#include <vector>

#include "nn/attention.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/norm.h"

namespace rondo::nn {

/// The names of torchvision's VisionTransformer.
struct VisionTransformerOptions {
  std::int64_t image_size = 224, patch_size = 16;
  std::int64_t num_layers = 12, num_heads = 12, hidden_dim = 768, mlp_dim = 3072;
  double dropout = 0, attention_dropout = 0;
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
};

/// x = x + attention(ln_1(x)); x = x + mlp(ln_2(x)). x (N, L, hidden_dim).
struct VisionTransformerBlock : Module {
  LayerNorm ln_1;
  MultiheadAttention self_attention;
  Dropout dropout;
  LayerNorm ln_2;
  Sequential mlp;

  explicit VisionTransformerBlock(const VisionTransformerOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

struct VisionTransformerLayers : Module {
  std::vector<VisionTransformerBlock> blocks;

  explicit VisionTransformerLayers(const VisionTransformerOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// Adds the positions' embeddings, and runs the layers.
struct VisionTransformerEncoder : Module {
  Tensor pos_embedding;  // (1, patches + 1, hidden_dim)
  Dropout dropout;
  VisionTransformerLayers layers;
  LayerNorm ln;

  explicit VisionTransformerEncoder(const VisionTransformerOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// x (N, in_channels, image_size, image_size) to logits (N, num_classes), from the output at a
/// class token that precedes the patches. Throws ShapeError for images of another size, and unless
/// patch_size divides image_size and num_heads divides hidden_dim.
struct VisionTransformer : Module {
  std::int64_t image_size, patch_size;
  Conv2d conv_proj;
  Tensor class_token;  // (1, 1, hidden_dim)
  VisionTransformerEncoder encoder;
  struct Heads : Module {
    Linear head;
    Heads(std::int64_t hidden_dim, std::int64_t num_classes) : head(hidden_dim, num_classes) {}
    Tensor forward(const Tensor& x) override { return head(x); }
    void visit(Visitor& v) override { v.child("head", head); }
  } heads;

  explicit VisionTransformer(const VisionTransformerOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
