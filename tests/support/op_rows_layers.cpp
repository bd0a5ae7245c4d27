// Rows of the op table: matrix products, convolution, normalisation, pooling, losses.

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/fused.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/recurrent.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "support/op_table.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

void matmul_rows(std::vector<Op>& rows) {
  auto product = [](X x) { return matmul(x[0], x[1]); };
  rows.push_back({.name = "matmul", .inputs = {{{3, 4}}, {{4, 2}}}, .f = product, .length = 4});
  rows.push_back({.name = "matmul.dot", .inputs = {{{5}}, {{5}}}, .f = product, .length = 5});
  rows.push_back({.name = "matmul.vector", .inputs = {{{4}}, {{4, 3}}}, .f = product, .length = 4});
  rows.push_back({.name = "matmul.batches",
                  .inputs = {{{2, 1, 3, 2}}, {{3, 2, 2}}},
                  .f = product,
                  .length = 6});
  rows.push_back(
      {.name = "matmul.tall", .inputs = {{{2, 3, 4}}, {{4, 2}}}, .f = product, .length = 6});
  rows.push_back({.name = "bmm",
                  .inputs = {{{2, 3, 4}}, {{2, 4, 2}}},
                  .f = [](X x) { return bmm(x[0], x[1]); },
                  .length = 4});
  rows.push_back({.name = "linear",
                  .inputs = {{{2, 3, 4}}, {{5, 4}}, {{5}}},
                  .f = [](X x) { return linear(x[0], x[1], x[2]); },
                  .length = 6});
  auto fused = [&rows](const char* name, Activation activation) {
    rows.push_back({.name = name,
                    .inputs = {{{3, 4}}, {{5, 4}}, {{5}}},
                    .f = [=](X x) { return linear(x[0], x[1], x[2], activation); },
                    .length = 6});
  };
  rows.push_back({.name = "behind_relu",
                  .inputs = {{{3, 4}, 0.5, 2}},
                  .f = [](X x) { return behind_relu(x[0]); },
                  .length = 1});
  fused("linear.relu", Activation::relu);
  fused("linear.gelu", Activation::gelu_tanh);
  rows.push_back({.name = "linear.no_bias",
                  .inputs = {{{3, 4}}, {{5, 4}}},
                  .f = [](X x) { return linear(x[0], x[1]); },
                  .length = 5});
  rows.push_back({.name = "linear.vector",
                  .inputs = {{{2, 3, 4}}, {{4}}},
                  .f = [](X x) { return linear(x[0], x[1]); },
                  .length = 6});
}

void conv_rows(std::vector<Op>& rows) {
  auto row = [&rows](std::string name, Dims x, Dims w, bool bias, Conv2dOptions options) {
    std::vector<OpInput> inputs = {{x}, {w}};
    if (bias) inputs.push_back({{w[0]}});
    rows.push_back(
        {.name = "conv2d" + name,
         .inputs = inputs,
         .f = [bias, options](X x) { return conv2d(x[0], x[1], bias ? x[2] : Tensor(), options); },
         .length = std::max(numel_of(w), x[0] * x[2] * x[3])});
  };
  row("", {2, 2, 4, 3}, {3, 2, 3, 3}, true, {.padding = 1});
  row(".pointwise", {2, 3, 2, 3}, {2, 3, 1, 1}, false, {});
  row(".strided", {1, 2, 5, 5}, {2, 2, 3, 3}, false, {.stride = 2, .padding = 1});
  row(".uneven", {1, 1, 4, 6}, {2, 1, 1, 3}, true, {.stride = {2, 1}, .padding = {0, 2}});
  row(".dilated", {1, 2, 5, 5}, {2, 2, 2, 2}, true, {.dilation = 2});
  row(".winograd", {1, 16, 17, 17}, {16, 16, 3, 3}, true, {.padding = 1});  // large enough for it
  rows.back().short_floats = true;
  row(".groups", {1, 4, 3, 3}, {4, 2, 2, 2}, true, {.groups = 2});
  row(".depthwise", {1, 3, 3, 3}, {3, 1, 3, 3}, false, {.padding = 1, .groups = 3});
  for (const auto& [name, activation] :
       {std::pair{"conv2d.relu", Activation::relu}, {"conv2d.gelu", Activation::gelu_tanh}})
    rows.push_back({.name = name,
                    .inputs = {{{2, 2, 4, 3}}, {{3, 2, 3, 3}}, {{3}}},
                    .f = [activation = activation](
                             X x) { return conv2d(x[0], x[1], x[2], {.padding = 1}, activation); },
                    .length = 54});
  auto line = [&rows](std::string name, Dims x, Dims w, bool bias, Conv1dOptions options) {
    std::vector<OpInput> inputs = {{x}, {w}};
    if (bias) inputs.push_back({{w[0]}});
    rows.push_back(
        {.name = "conv1d" + name,
         .inputs = inputs,
         .f = [bias, options](X x) { return conv1d(x[0], x[1], bias ? x[2] : Tensor(), options); },
         .length = std::max(numel_of(w), x[0] * x[2])});
  };
  line("", {2, 3, 5}, {4, 3, 3}, true, {.padding = 1});
  line(".options", {2, 4, 7}, {2, 2, 2}, false,
       {.stride = 2, .padding = 2, .dilation = 3, .groups = 2});
  auto back = [&rows](std::string name, Dims x, Dims w, bool bias, ConvTranspose2dOptions options) {
    std::vector<OpInput> inputs = {{x}, {w}};
    if (bias) inputs.push_back({{w[1] * options.groups}});
    rows.push_back(
        {.name = "conv_transpose2d" + name,
         .inputs = inputs,
         .f = [bias, options](
                  X x) { return conv_transpose2d(x[0], x[1], bias ? x[2] : Tensor(), options); },
         .length = std::max(numel_of(w), x[0] * x[2] * x[3] * 9)});
  };
  back("", {2, 3, 3, 2}, {3, 2, 3, 3}, true, {});
  back(".strided", {1, 2, 3, 2}, {2, 3, 3, 2}, true,
       {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}});
  back(".groups", {1, 4, 2, 3}, {4, 1, 2, 2}, false, {.groups = 2, .dilation = 2});
  back(".long_end", {1, 2, 3, 2}, {2, 2, 2, 2}, true,
       {.stride = {1, 2}, .output_padding = {2, 1}, .dilation = 3});
  rows.push_back({.name = "conv_transpose1d",
                  .inputs = {{{2, 3, 3}}, {{3, 2, 3}}, {{2}}},
                  .f =
                      [](X x) {
                        return conv_transpose1d(x[0], x[1], x[2],
                                                {.stride = 2, .padding = 1, .output_padding = 1});
                      },
                  .length = 18});
  rows.push_back({.name = "conv3d",
                  .inputs = {{{1, 2, 3, 3, 2}}, {{2, 2, 2, 2, 1}}, {{2}}},
                  .f =
                      [](X x) {
                        return conv3d(x[0], x[1], x[2], {.padding = {1, 0, 1}});
                      },
                  .length = 24});
  rows.push_back({.name = "conv3d.options",
                  .inputs = {{{2, 2, 4, 2, 3}}, {{2, 1, 2, 1, 2}}},
                  .f =
                      [](X x) {
                        return conv3d(x[0], x[1], {},
                                      {.stride = {2, 1, 2}, .dilation = {2, 1, 1}, .groups = 2});
                      },
                  .length = 16});
  rows.push_back({.name = "conv_transpose3d",
                  .inputs = {{{1, 2, 2, 2, 2}}, {{2, 2, 2, 2, 1}}, {{2}}},
                  .f = [](X x) { return conv_transpose3d(x[0], x[1], x[2]); },
                  .length = 32});
  rows.push_back({.name = "conv_transpose3d.options",
                  .inputs = {{{1, 2, 2, 1, 2}}, {{2, 1, 3, 1, 2}}},
                  .f =
                      [](X x) {
                        return conv_transpose3d(x[0], x[1], {},
                                                {.stride = {2, 1, 2},
                                                 .padding = {1, 0, 0},
                                                 .output_padding = {1, 0, 1},
                                                 .groups = 2});
                      },
                  .length = 24});
}

void attention_rows(std::vector<Op>& rows) {
  auto row = [&rows](std::string name, std::vector<OpInput> inputs, AttentionOptions options) {
    rows.push_back({.name = "scaled_dot_product_attention" + name,
                    .inputs = std::move(inputs),
                    .f =
                        [options](X x) {
                          AttentionOptions given = options;
                          if (x.size() > 3) given.attn_mask = x[3];
                          if (given.attn_mask.defined())
                            given.attn_mask = on_device_of(x[0], given.attn_mask);
                          return scaled_dot_product_attention(x[0], x[1], x[2], given);
                        },
                    .length = 12,
                    .scale = 4});
  };
  const std::vector<OpInput> heads = {{{2, 2, 3, 2}}, {{2, 2, 5, 2}}, {{2, 2, 5, 3}}};
  row("", heads, {});
  row(".broadcast", {{{2, 3, 2}}, {{1, 4, 2}}, {{4, 2}}}, {.scale = 0.75});
  row(".causal", heads, {.is_causal = true});
  // The first query may attend to nothing.
  row(".boolean", {{{2, 2}}, {{3, 2}}, {{3, 2}}},
      {.attn_mask = gt(tensor<float>({0, 0, 0, 1, 0, 1}, {2, 3}), 0)});
  row(".floating", {{{2, 3, 2}}, {{2, 3, 2}}, {{2, 3, 2}}, {{3, 3}}}, {});
  row(".grouped", {{{2, 4, 3, 2}}, {{2, 2, 5, 2}}, {{2, 2, 5, 3}}},
      {.is_causal = true, .enable_gqa = true});
  for (const auto& [name, sizes] :
       {std::pair("rotary_embedding", Dims{2, 3, 6}), {"rotary_embedding.heads", {2, 2, 3, 4}}})
    rows.push_back({.name = name,
                    .inputs = {{sizes}},
                    .f = [](X x) { return rotary_embedding(x[0], {.base = 100, .offset = 5}); },
                    .length = 2});
}

void norm_rows(std::vector<Op>& rows) {
  const OpInput planes{{3, 2, 2, 2}, -2, 2}, channels{{2}, 0.5, 1.5};
  rows.push_back({.name = "batch_norm",
                  .inputs = {planes, channels, channels},
                  .f = [](X x) { return batch_norm(x[0], x[1], x[2], {}, {}); },
                  .length = 12,
                  .scale = 8});
  rows.push_back({.name = "batch_norm.running",
                  .inputs = {planes, channels, channels},
                  .f =
                      [](X x) {
                        Tensor mean = full({2}, 0.5, x[1].options());
                        Tensor var = full({2}, 1.5, x[1].options());
                        return batch_norm(x[0], x[1], x[2], mean, var, {.training = false});
                      },
                  .length = 12,
                  .scale = 4});
  rows.push_back({.name = "batch_norm.fused",
                  .inputs = {planes, channels, channels, {{3, 2, 2, 2}, -2, 2}},
                  .f =
                      [](X x) {
                        return batch_norm(x[0], x[1], x[2], {}, {},
                                          {.residual = x[3], .relu = true});
                      },
                  .length = 12,
                  .scale = 8});
  rows.push_back({.name = "batch_norm.two_dims",
                  .inputs = {{{5, 3}, -2, 2}},
                  .f = [](X x) { return batch_norm(x[0], {}, {}, {}, {}); },
                  .length = 5,
                  .scale = 8});
  rows.push_back({.name = "layer_norm",
                  .inputs = {{{3, 2, 4}, -2, 2}, {{2, 4}}, {{2, 4}}},
                  .f =
                      [](X x) {
                        return layer_norm(x[0], {2, 4}, x[1], x[2]);
                      },
                  .length = 8,
                  .scale = 8});
  rows.push_back({.name = "group_norm",
                  .inputs = {{{2, 4, 2, 2}, -2, 2}, {{4}}, {{4}}},
                  .f = [](X x) { return group_norm(x[0], 2, x[1], x[2]); },
                  .length = 8,
                  .scale = 8});
}

void recurrent_rows(std::vector<Op>& rows) {
  for (const bool reverse : {false, true})
    rows.push_back({.name = reverse ? "lstm_layer.reverse" : "lstm_layer",
                    .inputs = {{{3, 2, 12}}, {{2, 3}}, {{2, 3}}, {{12, 3}}},
                    .f =
                        [reverse](X x) {
                          const Tensors found = lstm_layer(x[0], x[1], x[2], x[3], reverse);
                          return sum(found[0], {0}) + 2 * found[1];
                        },
                    .length = 24,
                    .scale = 4});
}

void pool_rows(std::vector<Op>& rows) {
  auto row = [&rows](std::string name, OpInput input, std::int64_t length, auto f) {
    rows.push_back({.name = std::move(name),
                    .inputs = {input},
                    .f = [f](X x) { return square(f(x[0])); },
                    .length = length});
  };
  using T = const Tensor&;
  const OpInput spaced{{2, 2, 4, 3}, -2, 2, true}, planes{{1, 2, 5, 4}, -2, 2};
  row("max_pool2d", spaced, 4, [](T x) { return max_pool2d(x, 2); });
  row("max_pool2d.overlapping", spaced, 9,
      [](T x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  row("max_pool2d.ceil", planes, 6, [](T x) {
    return max_pool2d(x, {2, 3}, {.stride = {2, 3}, .ceil_mode = true});
  });
  row("avg_pool2d", planes, 4, [](T x) { return avg_pool2d(x, 2); });
  row("avg_pool2d.overlapping", planes, 9, [](T x) {
    return avg_pool2d(x, 3, {.stride = {2, 1}, .padding = 1, .count_include_pad = false});
  });
  row("avg_pool2d.ceil", planes, 9,
      [](T x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true}); });
  row("adaptive_avg_pool2d", planes, 20, [](T x) { return adaptive_avg_pool2d(x, 1); });
  row("adaptive_avg_pool2d.uneven", planes, 6, [](T x) { return adaptive_avg_pool2d(x, {3, 3}); });
  row("upsample_nearest2d", OpInput{{2, 2, 2, 3}}, 4, [](T x) { return upsample_nearest2d(x, 2); });
}

void loss_rows(std::vector<Op>& rows) {
  const Tensor classes = tensor<std::int64_t>({2, 0, 1, 2}),
               some = tensor<std::int64_t>({2, -7, 1, 2});
  const Tensor pixels = tensor<std::int64_t>({2, 0, 1, 2, -100, 0, 1, 1}, {2, 2, 2});
  const OpInput logits{{4, 3}, -2, 2}, planes{{2, 3, 2, 2}, -2, 2};
  auto row = [&rows](std::string name, std::vector<OpInput> inputs, auto f) {
    rows.push_back(
        {.name = std::move(name), .inputs = std::move(inputs), .f = f, .length = 12, .scale = 4});
  };
  row("cross_entropy", {logits},
      [=](X x) { return cross_entropy(x[0], on_device_of(x[0], classes)); });
  row("cross_entropy.none", {logits}, [=](X x) {
    return cross_entropy(x[0], on_device_of(x[0], classes), {.reduction = Reduction::none});
  });
  row("cross_entropy.sum", {logits}, [=](X x) {
    return cross_entropy(x[0], on_device_of(x[0], classes), {.reduction = Reduction::sum});
  });
  row("cross_entropy.ignored", {logits},
      [=](X x) { return cross_entropy(x[0], on_device_of(x[0], some), {.ignore_index = -7}); });
  row("cross_entropy.smooth", {planes}, [=](X x) {
    return cross_entropy(x[0], on_device_of(x[0], pixels), {.label_smoothing = 0.25});
  });
  row("cross_entropy.planes.none", {planes}, [=](X x) {
    return cross_entropy(x[0], on_device_of(x[0], pixels), {.reduction = Reduction::none});
  });
  row("cross_entropy.weighted", {planes}, [=](X x) {
    Tensor weight = tensor<float>({0.5f, 1, 2});
    return cross_entropy(x[0], on_device_of(x[0], pixels),
                         {.weight = on_device_of(x[0], weight), .label_smoothing = 0.25});
  });
  row("nll_loss", {planes}, [=](X x) { return nll_loss(x[0], on_device_of(x[0], pixels)); });
  const OpInput spaced{{4, 3}, -2, 2, true}, shifted{{4, 3}, -1.95, 2.05, true};
  auto pair = [&row, &logits](std::string name,
                              Tensor (*f)(const Tensor&, const Tensor&, Reduction)) {
    for (auto [tag, reduction] : {std::pair{"", Reduction::mean}, {".none", Reduction::none}}) {
      row(name + tag, {logits, {{4, 3}, 0.125, 0.875}},
          [f, reduction = reduction](X x) { return f(x[0], x[1], reduction); });
    }
  };
  pair("mse_loss", mse_loss);
  pair("bce_with_logits", bce_with_logits);
  pair("kl_div", [](const Tensor& x, const Tensor& y, Reduction r) { return kl_div(x, y, r); });
  pair("kl_div.log", [](const Tensor& x, const Tensor& y, Reduction r) {
    return kl_div(x, y, r, TargetScale::log_probabilities);
  });
  row("l1_loss", {spaced, shifted}, [](X x) { return l1_loss(x[0], x[1]); });
  row("smooth_l1_loss", {spaced, shifted}, [](X x) { return smooth_l1_loss(x[0], x[1], 0.7); });
}

}  // namespace

std::vector<Op> layer_rows() {
  std::vector<Op> rows;
  matmul_rows(rows);
  conv_rows(rows);
  attention_rows(rows);
  norm_rows(rows);
  recurrent_rows(rows);
  pool_rows(rows);
  loss_rows(rows);
  return rows;
}

}  // namespace rondo::test
