#pragma once
// TransformerEncoderLayer, TransformerEncoder: attention alternates with a small network that is
// applied to each element, each with a residual connection (Vaswani et al. 2017). With a causal
// mask it is the core of language models (examples/05_text.cpp). The decoder is in
// transformer_decoder.h.

#include <typeinfo>

#include "nn/attention.h"
#include "nn/containers.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/norm.h"

namespace rondo::nn {

enum class TransformerActivation { relu, gelu };

struct TransformerEncoderLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout =
      0.1;  // of attention's weights, of both branches, and between linear1 and linear2
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // (N, L, E) instead of (L, N, E)
  bool norm_first = false;
  bool bias = true;
};

/// Masks that hide elements from each other; as in AttentionCall.
struct TransformerMasks {
  Tensor src_mask = {};              // (L, L), or (N nhead, L, L)
  Tensor src_key_padding_mask = {};  // (N, L)
  bool is_causal = false;            // element i attends to 0 … i
  template <class V>
  void visit(V&& v) {
    v("src_mask", src_mask);
    v("src_key_padding_mask", src_key_padding_mask);
  }
};

namespace detail {
Tensor activated(const Tensor& x, TransformerActivation activation);

/// Independent copies of a layer. Throws Error if it is of a class derived from Layer.
template <class Layer>
ModuleList copies_of(const char* stack, const Layer& layer, std::int64_t count) {
  require(count >= 0, stack, ": ", count, " layers, but the number must not be negative");
  require(typeid(layer) == typeid(Layer), stack, ": the layer is a ", type_name(layer),
          ", and copies of it as a ", type_name(typeid(Layer)),
          " would lose what it adds; put its clones into an nn::ModuleList and run them in a "
          "forward of your own");
  ModuleList layers;
  for (std::int64_t i = 0; i < count; ++i) layers.push_back(clone(layer));
  return layers;
}
}  // namespace detail

/// x (L, N, d_model), or (N, L, d_model) with batch_first, to the same shape:
///
///   x = norm1(x + dropout1(self_attn(x)))
///   x = norm2(x + dropout2(linear2(dropout(activation(linear1(x))))))
///
/// With norm_first: x = x + dropout1(self_attn(norm1(x))) and so on, which trains without a
/// warm-up. Throws as MultiheadAttention does. Agrees with torch.nn.TransformerEncoderLayer.
struct TransformerEncoderLayer : Module {
  TransformerEncoderLayerOptions options;
  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;

  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          TransformerEncoderLayerOptions options = {});
  Tensor forward(const Tensor& x) override { return run(x, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& x, const TransformerMasks& masks);
  void visit(Visitor& v) override {
    v.child("self_attn", self_attn);
    v.child("linear1", linear1);
    v.child("dropout", dropout);
    v.child("linear2", linear2);
    v.child("norm1", norm1);
    v.child("norm2", norm2);
    v.child("dropout1", dropout1);
    v.child("dropout2", dropout2);
  }

 private:
  Tensor run(const Tensor& x, const TransformerMasks& masks);
  Tensor attend(const Tensor& x, const TransformerMasks& masks);
  Tensor feed_forward(const Tensor& x);
};

/// Runs num_layers copies of a layer, one after another, then norm if it is not empty (with
/// norm_first there should be one). Each copy has its own parameters; their initial values are
/// equal. Agrees with torch.nn.TransformerEncoder, except that PyTorch guesses is_causal from the
/// mask unless it is given. Throws Error if the layer is of a class derived from
/// TransformerEncoderLayer.
///
///   nn::TransformerEncoderLayer layer(64, 4, {.batch_first = true, .norm_first = true});
///   nn::TransformerEncoder encoder(layer, 6, nn::LayerNorm(64));
///   Tensor y = encoder(x, {.is_causal = true});
struct TransformerEncoder : Module {
  ModuleList layers;
  AnyModule norm;

  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     AnyModule norm = {});
  Tensor forward(const Tensor& x) override { return run(x, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& x, const TransformerMasks& masks);
  void visit(Visitor& v) override {
    v.child("layers", layers);
    v.child("norm", norm);
  }

 private:
  Tensor run(const Tensor& x, const TransformerMasks& masks);
};

}  // namespace rondo::nn
