// Rules for products, convolutions, pooling and normalisation.

#include <algorithm>

#include "extras/onnx/protobuf/onnx_ops.h"
#include "tensor/creation.h"

namespace rondo::io::onnx {
namespace {

/// y = x W^T + bias.
Names linear(OpWriter& w) {
  Names inputs = {w.in(0), w.in(1)};
  if (w.has(2)) inputs.push_back(w.in(2));
  return {w.node("Gemm", inputs, {{"transB", std::int64_t{1}}})};
}

Names bmm(OpWriter& w) { return {w.node("MatMul", {w.in(0), w.in(1)})}; }

/// The sizes of a convolution's kernel, from those of its weight (K, C, R, S).
Integers kernel_of(OpWriter& w) {
  const Sizes& weight = w.in_sizes(1);
  return {w.fixed(weight[2]), w.fixed(weight[3])};
}

/// ONNX pads each side: top, left, bottom, right.
Integers both_sides(const Integers& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

Names conv2d(OpWriter& w) {
  Names inputs = {w.in(0), w.in(1)};
  if (w.has(2)) inputs.push_back(w.in(2));
  return {w.node("Conv", inputs,
                 {{"kernel_shape", kernel_of(w)},
                  {"strides", w.integers("stride")},
                  {"pads", both_sides(w.integers("padding"))},
                  {"dilations", w.integers("dilation")},
                  {"group", w.integer("groups")}})};
}

/// The output has (H - 1) stride - 2 padding + dilation (R - 1) + 1 rows; additional ones are
/// output padding at the end.
Names conv_transpose2d(OpWriter& w) {
  const Integers kernel = kernel_of(w), stride = w.integers("stride"),
                 padding = w.integers("padding"), dilation = w.integers("dilation");
  Integers more;
  for (std::size_t d = 0; d < 2; ++d)
    more.push_back(w.fixed(w.out_sizes()[d + 2]) -
                   ((w.fixed(w.in_sizes(0)[d + 2]) - 1) * stride[d] - 2 * padding[d] +
                    dilation[d] * (kernel[d] - 1) + 1));
  return {w.node("ConvTranspose", {w.in(0), w.in(1)},
                 {{"kernel_shape", kernel},
                  {"strides", stride},
                  {"pads", both_sides(padding)},
                  {"output_padding", more},
                  {"dilations", dilation},
                  {"group", w.integer("groups")}})};
}

/// The windows of a pooling op. ceil_mode is expressed as padding at the end, as much as the last
/// window needs: runtimes agree about padding, but differ about ceil_mode.
struct OnnxWindows {
  Integers kernel, stride, padding, end;

  explicit OnnxWindows(const OpWriter& w)
      : kernel(w.integers("kernel")), stride(w.integers("stride")), padding(w.integers("padding")) {
    for (std::size_t d = 0; d < 2; ++d)
      end.push_back(std::max<std::int64_t>((w.fixed(w.out_sizes()[d + 2]) - 1) * stride[d] +
                                               kernel[d] - w.fixed(w.in_sizes(0)[d + 2]) -
                                               padding[d],
                                           0));
  }
  Integers pads() const { return {padding[0], padding[1], end[0], end[1]}; }
};

Names max_pool2d(OpWriter& w) {
  const OnnxWindows windows(w);
  return {w.node(
      "MaxPool", {w.in(0)},
      {{"kernel_shape", windows.kernel}, {"strides", windows.stride}, {"pads", windows.pads()}})};
}

/// With ceil_mode, a window that extends beyond the padded image is divided by the number of its
/// elements inside, including padding. In that case the image is padded first.
Names avg_pool2d(OpWriter& w) {
  OnnxWindows windows(w);
  std::int64_t includes = w.integer("count_include_pad");
  std::string x = w.in(0);
  if (includes == 1 &&
      (windows.end[0] > windows.padding[0] || windows.end[1] > windows.padding[1])) {
    const Integers padding = windows.padding;
    x = w.node("Pad", {x, w.list({0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]})});
    for (std::size_t d = 0; d < 2; ++d)
      windows.end[d] = std::max<std::int64_t>(windows.end[d] - padding[d], 0);
    windows.padding = {0, 0};
    includes = 0;
  }
  return {w.node("AveragePool", {x},
                 {{"kernel_shape", windows.kernel},
                  {"strides", windows.stride},
                  {"pads", windows.pads()},
                  {"count_include_pad", includes}})};
}

/// The (P, H) matrix that maps `inputs` pixels to the means of `outputs` windows, which span
/// floor(i H / P) to ceil((i + 1) H / P).
Tensor averaging_matrix(std::int64_t inputs, std::int64_t outputs) {
  std::vector<double> weights(static_cast<std::size_t>(inputs * outputs));
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t begin = i * inputs / outputs, end = ((i + 1) * inputs - 1) / outputs + 1;
    for (std::int64_t j = begin; j < end; ++j)
      weights[static_cast<std::size_t>(i * inputs + j)] = 1 / static_cast<double>(end - begin);
  }
  return tensor(weights, {outputs, inputs});
}

/// Windows of equal size become an average pooling; other windows, two matrix products.
Names adaptive_avg_pool2d(OpWriter& w) {
  const std::int64_t p = w.fixed(w.out_sizes()[2]), q = w.fixed(w.out_sizes()[3]);
  if (p == 1 && q == 1) return {w.node("GlobalAveragePool", {w.in(0)})};
  const std::int64_t height = w.fixed(w.in_sizes(0)[2]), width = w.fixed(w.in_sizes(0)[3]);
  if (height % p == 0 && width % q == 0) {
    const Integers window = {height / p, width / q};
    return {w.node("AveragePool", {w.in(0)}, {{"kernel_shape", window}, {"strides", window}})};
  }
  const Tensor rows = averaging_matrix(height, p), columns = averaging_matrix(width, q);
  const std::string narrow =
      w.node("MatMul", {w.in(0), w.initializer(columns.t().to(w.dtype()).contiguous(), "columns")});
  return {w.node("MatMul", {w.initializer(rows.to(w.dtype()), "rows"), narrow})};
}

/// Argument i, or a tensor filled with `value` if the layer has none.
std::string or_filled(OpWriter& w, std::size_t i, const Dims& sizes, double value,
                      const char* what) {
  return w.has(i) ? w.in(i) : w.initializer(full(sizes, value, {.dtype = w.dtype()}), what);
}

Names batch_norm_inference(OpWriter& w) {
  const Dims channels = {w.fixed(w.in_sizes(0)[1])};
  return {w.node("BatchNormalization",
                 {w.in(0), or_filled(w, 1, channels, 1, "weight"),
                  or_filled(w, 2, channels, 0, "bias"), w.in(3), w.in(4)},
                 {{"epsilon", w.real("eps")}})};
}

Names layer_norm(OpWriter& w) {
  const std::int64_t count = w.integer("dims");
  const Sizes& sizes = w.in_sizes(0);
  Dims normalized;
  for (auto size = sizes.end() - count; size != sizes.end(); ++size)
    normalized.push_back(w.fixed(*size));
  Names inputs = {w.in(0), or_filled(w, 1, normalized, 1, "weight")};
  if (w.has(2)) inputs.push_back(w.in(2));
  return {w.node("LayerNormalization", inputs, {{"axis", -count}, {"epsilon", w.real("eps")}})};
}

}  // namespace

void add_layer_rules(Rules& rules) {
  rules.insert({{"linear", linear},
                {"bmm", bmm},
                {"conv2d", conv2d},
                {"conv_transpose2d", conv_transpose2d},
                {"max_pool2d", max_pool2d},
                {"avg_pool2d", avg_pool2d},
                {"adaptive_avg_pool2d", adaptive_avg_pool2d},
                {"batch_norm_inference", batch_norm_inference},
                {"layer_norm", layer_norm}});
}

}  // namespace rondo::io::onnx
