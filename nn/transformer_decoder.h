#pragma once
// TransformerDecoderLayer, TransformerDecoder, Transformer: the part of a Transformer that writes a
// sequence while it reads another one, the memory (Vaswani et al. 2017).

#include "nn/transformer.h"

namespace rondo::nn {

using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;

/// Masks that hide elements of the target (length L) and of the memory (length S); as in
/// AttentionCall.
struct TransformerDecoderMasks {
  Tensor tgt_mask = {};                 // (L, L), or (N nhead, L, L)
  Tensor memory_mask = {};              // (L, S), or (N nhead, L, S)
  Tensor tgt_key_padding_mask = {};     // (N, L)
  Tensor memory_key_padding_mask = {};  // (N, S)
  bool tgt_is_causal = false;           // element i attends to the target's 0 … i
  bool memory_is_causal = false;        // and to the memory's 0 … i
  template <class V>
  void visit(V&& v) {
    v("tgt_mask", tgt_mask);
    v("memory_mask", memory_mask);
    v("tgt_key_padding_mask", tgt_key_padding_mask);
    v("memory_key_padding_mask", memory_key_padding_mask);
  }
};

/// tgt (L, N, d_model) and memory (S, N, d_model), or (N, L, d_model) and (N, S, d_model) with
/// batch_first, to the shape of tgt:
///
///   x = norm1(x + dropout1(self_attn(x)))
///   x = norm2(x + dropout2(multihead_attn(x, memory)))
///   x = norm3(x + dropout3(linear2(dropout(activation(linear1(x))))))
///
/// With norm_first: x = x + dropout1(self_attn(norm1(x))) and so on. Throws as MultiheadAttention
/// does. Agrees with torch.nn.TransformerDecoderLayer.
struct TransformerDecoderLayer : Module {
  TransformerDecoderLayerOptions options;
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;

  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          TransformerDecoderLayerOptions options = {});
  /// Throws Error: a decoder needs the memory.
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  Tensor operator()(const Tensor& tgt, const Tensor& memory,
                    const TransformerDecoderMasks& masks = {});
  void visit(Visitor& v) override;

 private:
  Tensor run(const Tensor& tgt, const Tensor& memory, const TransformerDecoderMasks& masks);
  Tensor attend(const Tensor& x, const TransformerDecoderMasks& masks);
  Tensor attend_to_memory(const Tensor& x, const Tensor& memory,
                          const TransformerDecoderMasks& masks);
  Tensor feed_forward(const Tensor& x);
};

/// Runs num_layers copies of a layer, then norm if it is not empty; as TransformerEncoder. Agrees
/// with torch.nn.TransformerDecoder, except that PyTorch guesses tgt_is_causal from the mask unless
/// it is given.
struct TransformerDecoder : Module {
  ModuleList layers;
  AnyModule norm;

  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                     AnyModule norm = {});
  /// Throws Error: a decoder needs the memory.
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  Tensor operator()(const Tensor& tgt, const Tensor& memory,
                    const TransformerDecoderMasks& masks = {});
  void visit(Visitor& v) override {
    v.child("layers", layers);
    v.child("norm", norm);
  }

 private:
  Tensor run(const Tensor& tgt, const Tensor& memory, const TransformerDecoderMasks& masks);
};

struct TransformerOptions {
  std::int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
};

/// The masks of the encoder and of the decoder.
struct TransformerCall {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;
  template <class V>
  void visit(V&& v) {
    v("src_mask", src_mask);
    v("tgt_mask", tgt_mask);
    v("memory_mask", memory_mask);
    v("src_key_padding_mask", src_key_padding_mask);
    v("tgt_key_padding_mask", tgt_key_padding_mask);
    v("memory_key_padding_mask", memory_key_padding_mask);
  }
};

/// decoder(tgt, encoder(src)), both with a LayerNorm at the end: src (S, N, d_model) and tgt (L, N,
/// d_model), or batch first, to the shape of tgt. Weights with two or more dimensions are drawn by
/// xavier_uniform_. Throws ShapeError for tensors of other shapes. Agrees with
/// torch.nn.Transformer, except that custom_encoder and custom_decoder are missing: assign the
/// members.
///
///   nn::Transformer model(64, 4, {.batch_first = true});
///   Tensor y = model(src, tgt, {.tgt_is_causal = true});
struct Transformer : Module {
  std::int64_t d_model;
  TransformerOptions options;
  TransformerEncoder encoder;
  TransformerDecoder decoder;

  explicit Transformer(std::int64_t d_model = 512, std::int64_t nhead = 8,
                       TransformerOptions options = {});
  /// Throws Error: a Transformer needs src and tgt.
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  Tensor operator()(const Tensor& src, const Tensor& tgt, const TransformerCall& call = {});
  void visit(Visitor& v) override {
    v.child("encoder", encoder);
    v.child("decoder", decoder);
  }

  /// A causal mask (size, size): 0 where element i may attend, -inf above the diagonal.
  static Tensor generate_square_subsequent_mask(std::int64_t size, TensorOptions options = {});

 private:
  Tensor run(const Tensor& src, const Tensor& tgt, const TransformerCall& call);
};

}  // namespace rondo::nn
