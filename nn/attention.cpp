// MultiheadAttention (see attention.h). Internally all tensors are (N, L, E), batch first.

#include "nn/attention.h"

#include <limits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

/// A mask as a bias for the scores.
Tensor as_bias(const Tensor& mask, const char* which, const TensorOptions& like) {
  require<DTypeError>(mask.dtype() == boolean || is_floating(mask.dtype()),
                      "MultiheadAttention: ", which, " is of ", mask.dtype(),
                      ", neither boolean nor floating");
  if (mask.dtype() != boolean) return mask.to(*like.dtype);
  return where(mask, scalar(-std::numeric_limits<double>::infinity(), like), scalar(0, like));
}

/// The sum of all masks, as a bias (…, L, S + extra) for scores (N, heads, L, S + extra); undefined
/// without masks. All queries see the `extra` keys.
Tensor joined_masks(const AttentionCall& call, const Tensor& q, std::int64_t keys,
                    std::int64_t extra) {
  const std::int64_t n = q.size(0), heads = q.size(1), queries = q.size(2);
  const TensorOptions like = {.dtype = q.dtype(), .device = q.device()};
  Tensor sum;
  const auto add_mask = [&sum](const Tensor& mask) { sum = sum.defined() ? sum + mask : mask; };
  if (call.attn_mask.defined()) {
    const Tensor& mask = call.attn_mask;
    const Dims one = {queries, keys}, each = {n * heads, queries, keys};
    require<ShapeError>(mask.shape() == one || mask.shape() == each,
                        "MultiheadAttention: attn_mask ", mask.shape(), " is neither ", one,
                        " nor ", each);
    const Tensor bias = as_bias(mask, "attn_mask", like);
    add_mask(mask.dim() == 2 ? bias : reshape(bias, {n, heads, queries, keys}));
  }
  if (call.key_padding_mask.defined()) {
    const Tensor& mask = call.key_padding_mask;
    require<ShapeError>(mask.shape() == Dims({n, keys}), "MultiheadAttention: key_padding_mask ",
                        mask.shape(), " for a batch of ", n, " and ", keys, " keys");
    add_mask(reshape(as_bias(mask, "key_padding_mask", like), {n, 1, 1, keys}));
  }
  if (call.is_causal && (sum.defined() || extra > 0)) {
    const Tensor row = cumsum(ones({queries}, {.device = q.device()}), 0);
    const Tensor column = cumsum(ones({keys}, {.device = q.device()}), 0);
    add_mask(as_bias(gt(unsqueeze(column, 0), unsqueeze(row, 1)), "is_causal", like));
  }
  return sum.defined() && extra > 0 ? pad(sum, {0, extra}) : sum;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       MultiheadAttentionOptions options)
    : embed_dim(embed_dim),
      num_heads(num_heads),
      options(options),
      out_proj(embed_dim, embed_dim, {.bias = options.bias}) {
  require<ShapeError>(embed_dim > 0 && num_heads > 0 && embed_dim % num_heads == 0,
                      "MultiheadAttention: ", num_heads, " heads do not divide an embedding of ",
                      embed_dim);
  require(options.dropout >= 0 && options.dropout <= 1, "MultiheadAttention: the probability ",
          options.dropout, " is not in [0, 1]");
  MultiheadAttentionOptions& o = this->options;
  require<ShapeError>(o.kdim >= 0 && o.vdim >= 0, "MultiheadAttention: kdim ", o.kdim, " and vdim ",
                      o.vdim, " must be at least 1, or 0 for embed_dim");
  if (o.kdim == 0) o.kdim = embed_dim;
  if (o.vdim == 0) o.vdim = embed_dim;
  const auto drawn = [embed_dim](std::int64_t rows, std::int64_t features) {
    return init::xavier_uniform_(empty({rows * embed_dim, features})).requires_grad_();
  };
  if (o.kdim == embed_dim && o.vdim == embed_dim) {
    in_proj_weight = drawn(3, embed_dim);
  } else {
    q_proj_weight = drawn(1, embed_dim);
    k_proj_weight = drawn(1, o.kdim);
    v_proj_weight = drawn(1, o.vdim);
  }
  if (options.add_bias_kv) {
    bias_k = init::xavier_normal_(empty({1, 1, embed_dim})).requires_grad_();
    bias_v = init::xavier_normal_(empty({1, 1, embed_dim})).requires_grad_();
  }
  if (!options.bias) return;
  in_proj_bias = zeros({3 * embed_dim}).requires_grad_();
  const NoGradGuard no_grad;
  out_proj.bias.zero_();
}

/// Queries, keys and values projected for the heads, (N, L, E). Inputs that are the same tensor
/// share one product.
Tensors MultiheadAttention::projected(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto biases = [this](std::int64_t first, std::int64_t count) {
    return in_proj_bias.defined() && count < 3
               ? in_proj_bias.narrow(0, first * embed_dim, count * embed_dim)
               : in_proj_bias;
  };
  if (!in_proj_weight.defined())
    return {linear(query, q_proj_weight, biases(0, 1)), linear(key, k_proj_weight, biases(1, 1)),
            linear(value, v_proj_weight, biases(2, 1))};
  const auto product = [&](const Tensor& x, std::int64_t first, std::int64_t count) {
    const Tensor weight = count == 3
                              ? in_proj_weight
                              : in_proj_weight.narrow(0, first * embed_dim, count * embed_dim);
    return chunk(linear(x, weight, biases(first, count)), count, -1);
  };
  if (query.is_same(key) && key.is_same(value)) return product(query, 0, 3);
  Tensors parts = product(query, 0, 1);
  for (const Tensor& part : key.is_same(value)
                                ? product(key, 1, 2)
                                : Tensors{product(key, 1, 1)[0], product(value, 2, 1)[0]})
    parts.push_back(part);
  return parts;
}

/// Appends the keys and values of add_bias_kv and add_zero_attn to the projected ones.
void MultiheadAttention::append_extra_keys(Tensors& parts) const {
  const std::int64_t batch = options.batch_first ? 0 : 1, n = parts[1].size(batch);
  const auto append = [&](Tensor& part, const Tensor& one) {  // (1, 1, E)
    Dims sizes = {1, 1, embed_dim};
    sizes[batch] = n;
    part = cat({part, expand(one.to(part.dtype()), sizes)}, 1 - batch);
  };
  if (options.add_bias_kv) {
    append(parts[1], bias_k);
    append(parts[2], bias_v);
  }
  if (options.add_zero_attn) {
    const Tensor none = zeros({1, 1, embed_dim}, parts[1].options());
    append(parts[1], none);
    append(parts[2], none);
  }
}

AttentionOutput MultiheadAttention::run(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionCall& call) {
  query.require_defined("MultiheadAttention", "the query");
  key.require_defined("MultiheadAttention", "the key");
  value.require_defined("MultiheadAttention", "the value");
  const std::int64_t dims = query.dim();
  require<ShapeError>(
      (dims == 2 || dims == 3) && key.dim() == dims && value.dim() == dims &&
          query.size(-1) == embed_dim && key.size(-1) == options.kdim &&
          value.size(-1) == options.vdim,
      "MultiheadAttention: query ", query.shape(), ", key ", key.shape(), " and value ",
      value.shape(), " are not all ", options.batch_first ? "(N, L, " : "(L, N, ", embed_dim,
      ") or (L, ", embed_dim, ")", in_proj_weight.defined() ? "" : ", with kdim and vdim features");
  if (query.dim() == 2) {  // one sequence, as a batch of 1
    const std::int64_t at = options.batch_first ? 0 : 1;
    AttentionCall batched = call;
    if (call.key_padding_mask.defined()) {
      require<ShapeError>(call.key_padding_mask.dim() == 1, "MultiheadAttention: key_padding_mask ",
                          call.key_padding_mask.shape(), " for keys ", key.shape(),
                          " without a batch");
      batched.key_padding_mask = unsqueeze(call.key_padding_mask, 0);
    }
    const Tensor q = unsqueeze(query, at), k = key.is_same(query) ? q : unsqueeze(key, at);
    const Tensor v = value.is_same(key) ? k : unsqueeze(value, at);
    const AttentionOutput found = run(q, k, v, batched);
    return {squeeze(found.output, at), call.need_weights ? squeeze(found.weights, 0) : Tensor()};
  }
  const std::int64_t batch = options.batch_first ? 0 : 1;
  require<ShapeError>(key.size(0) == value.size(0) && key.size(1) == value.size(1) &&
                          key.size(batch) == query.size(batch),
                      "MultiheadAttention: query ", query.shape(), ", key ", key.shape(),
                      " and value ", value.shape(), " are not of one batch");

  Tensors parts = projected(query, key, value);
  append_extra_keys(parts);
  for (Tensor& part : parts) {  // as (N, heads, L, E / heads)
    const Tensor heads =
        reshape(part, {part.size(0), part.size(1), num_heads, embed_dim / num_heads});
    part = permute(heads, options.batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3});
  }
  const std::int64_t keys = key.size(1 - batch);
  const Tensor mask = joined_masks(call, parts[0], keys, parts[1].size(2) - keys);
  const AttentionOptions options_of_call = {.attn_mask = mask,
                                            .dropout_p = is_training() ? options.dropout : 0,
                                            .is_causal = call.is_causal && !mask.defined()};
  AttentionResult found;
  if (call.need_weights)
    found = attention_with_weights(parts[0], parts[1], parts[2], options_of_call);
  else
    found.output = scaled_dot_product_attention(parts[0], parts[1], parts[2], options_of_call);
  const Tensor order =
      permute(found.output, options.batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3});
  const Tensor output = out_proj(reshape(order, query.shape()));
  if (!call.need_weights) return {output, {}};
  return {output, call.average_attn_weights ? mean(found.weights, {1}) : found.weights};
}

AttentionOutput MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                               const Tensor& value, const AttentionCall& call) {
  return Module::call([&](const auto&... inputs) { return run(inputs...); }, query, key, value,
                      call);
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  return run(x, x, x, {.need_weights = false}).output;
}

std::int64_t MultiheadAttention::multiply_adds(const Tensor& key, const Tensor& y) const {
  const std::int64_t keys = key.dim() == 2 ? key.size(0) : key.size(options.batch_first);
  const std::int64_t tokens = key.numel() / options.kdim;
  return (y.numel() + tokens * (options.kdim + options.vdim)) * embed_dim + 2 * y.numel() * keys;
}

std::int64_t MultiheadAttention::multiply_adds_of(const Tensors& inputs,
                                                  const Tensors& outputs) const {
  return multiply_adds(inputs.size() > 1 ? inputs[1] : inputs[0], outputs[0]);
}

}  // namespace rondo::nn
