// VisionTransformer (see vit.h).

#include "nn/models/vit.h"

#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

constexpr LayerNormOptions norm{.eps = 1e-6};

void require_patches(const VisionTransformerOptions& options) {
  require<ShapeError>(options.patch_size > 0 && options.image_size % options.patch_size == 0,
                      "VisionTransformer: patch_size ", options.patch_size,
                      " does not divide image_size ", options.image_size);
}

}  // namespace

VisionTransformerBlock::VisionTransformerBlock(const VisionTransformerOptions& options)
    : ln_1(options.hidden_dim, norm),
      self_attention(options.hidden_dim, options.num_heads,
                     {.dropout = options.attention_dropout, .batch_first = true}),
      dropout(options.dropout),
      ln_2(options.hidden_dim, norm),
      mlp(Linear(options.hidden_dim, options.mlp_dim), GELU(), Dropout(options.dropout),
          Linear(options.mlp_dim, options.hidden_dim), Dropout(options.dropout)) {
  for (const std::int64_t i : {0, 3}) {
    auto& linear = mlp[i].as<Linear>();
    init::xavier_uniform_(linear.weight);
    init::normal_(linear.bias, 0, 1e-6);
  }
}

Tensor VisionTransformerBlock::forward(const Tensor& x) {
  const Tensor y = ln_1(x);
  const Tensor sum = x + dropout(self_attention(y, y, y, {.need_weights = false}).output);
  return sum + mlp(ln_2(sum));
}

void VisionTransformerBlock::visit(Visitor& v) {
  v.child("ln_1", ln_1);
  v.child("self_attention", self_attention);
  v.child("dropout", dropout);
  v.child("ln_2", ln_2);
  v.child("mlp", mlp);
}

VisionTransformerLayers::VisionTransformerLayers(const VisionTransformerOptions& options) {
  for (std::int64_t i = 0; i < options.num_layers; ++i) blocks.emplace_back(options);
}

Tensor VisionTransformerLayers::forward(const Tensor& x) {
  Tensor y = x;
  for (VisionTransformerBlock& block : blocks) y = block(y);
  return y;
}

void VisionTransformerLayers::visit(Visitor& v) {
  for (std::size_t i = 0; i < blocks.size(); ++i) v.child(concat("encoder_layer_", i), blocks[i]);
}

VisionTransformerEncoder::VisionTransformerEncoder(const VisionTransformerOptions& options)
    : dropout(options.dropout), layers(options), ln(options.hidden_dim, norm) {
  const std::int64_t side = options.image_size / options.patch_size;
  pos_embedding = empty({1, side * side + 1, options.hidden_dim});
  init::normal_(pos_embedding, 0, 0.02);
  pos_embedding.requires_grad_();
}

Tensor VisionTransformerEncoder::forward(const Tensor& x) {
  return ln(layers(dropout(x + pos_embedding)));
}

void VisionTransformerEncoder::visit(Visitor& v) {
  v.parameter("pos_embedding", pos_embedding);
  v.child("dropout", dropout);
  v.child("layers", layers);
  v.child("ln", ln);
}

VisionTransformer::VisionTransformer(const VisionTransformerOptions& options)
    : image_size(options.image_size),
      patch_size(options.patch_size),
      conv_proj((require_patches(options), options.in_channels), options.hidden_dim,
                options.patch_size, {.stride = options.patch_size}),
      class_token(zeros({1, 1, options.hidden_dim}).requires_grad_()),
      encoder(options),
      heads(options.hidden_dim, options.num_classes) {
  const auto fan_in = static_cast<double>(conv_proj.weight.numel() / options.hidden_dim);
  init::trunc_normal_(conv_proj.weight, 0, 1 / std::sqrt(fan_in));
  init::zeros_(conv_proj.bias);
  init::zeros_(heads.head.weight);
  init::zeros_(heads.head.bias);
}

Tensor VisionTransformer::forward(const Tensor& x) {
  require<ShapeError>(x.dim() == 4 && x.size(2) == image_size && x.size(3) == image_size,
                      "VisionTransformer: input ", x.shape(), " is not (N, C, ", image_size, ", ",
                      image_size, "), the size that the model was made for");
  const std::int64_t n = x.size(0);
  const Tensor patches = transpose(flatten(conv_proj(x), 2), 1, 2);  // (N, L, hidden_dim)
  const Tensor tokens = cat({class_token.expand({n, 1, class_token.size(2)}), patches}, 1);
  return heads(encoder(tokens).select(1, 0));
}

void VisionTransformer::visit(Visitor& v) {
  v.parameter("class_token", class_token);
  v.child("conv_proj", conv_proj);
  v.child("encoder", encoder);
  v.child("heads", heads);
}

}  // namespace rondo::nn
