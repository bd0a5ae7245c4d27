// How models are printed: the tree, and the options of each layer, in PyTorch's words.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/bilinear.h"
#include "nn/containers.h"
#include "nn/conv_nd.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/flatten.h"
#include "nn/fold.h"
#include "nn/instance_norm.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "nn/padding.h"
#include "nn/pooling.h"
#include "nn/recurrent.h"

namespace rondo::nn {
namespace {

/// A number as Python prints a float: the shortest text that reads back as the same number.
std::string python_text(double value) {
  const double size = std::abs(value);
  const bool is_fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  std::string text(32, ' ');
  const auto format = is_fixed ? std::chars_format::fixed : std::chars_format::scientific;
  text.resize(static_cast<std::size_t>(
      std::to_chars(text.data(), text.data() + text.size(), value, format).ptr - text.data()));
  return text + (is_fixed && text.find('.') == std::string::npos ? ".0" : "");
}
std::string tuple(const Dims& sizes) {
  std::string text = "(";
  for (std::int64_t i = 0; i < sizes.size(); ++i) text += concat(i > 0 ? ", " : "", sizes[i]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}
/// Sizes as users write them: one number for equal ones.
std::string short_text(const Dims& sizes) {
  const bool are_equal = std::ranges::count(sizes, sizes[0]) == sizes.size();
  return are_equal ? concat(sizes[0]) : tuple(sizes);
}
/// Whether all sizes are `value`.
bool is(const Dims& sizes, std::int64_t value) {
  return std::ranges::count(sizes, value) == sizes.size();
}

std::string text_of(bool value) { return value ? "True" : "False"; }
std::string text_of(double value) { return python_text(value); }
std::string text_of(std::int64_t value) { return concat(value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const Dims& sizes) { return short_text(sizes); }
std::string text_of(const Pair& size) { return short_text(detail::dims_of(size)); }
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "None";
}

/// named("eps", 1e-5, "affine", true) is "eps=1e-05, affine=True".
template <class T, class... Rest>
std::string named(const char* name, const T& value, const Rest&... rest) {
  std::string text = concat(name, '=', text_of(value));
  if constexpr (sizeof...(rest) > 0) text += ", " + named(rest...);
  return text;
}

/// ", name=value", or nothing if the value is the usual one.
template <class T>
std::string unless(const T& usual, const char* name, const T& value) {
  return value == usual ? "" : ", " + named(name, value);
}

const char* text_of(PadMode mode) {
  switch (mode) {
    case PadMode::constant:
      return "zeros";
    case PadMode::reflect:
      return "reflect";
    case PadMode::replicate:
      return "replicate";
    case PadMode::circular:
      return "circular";
  }
  return "";
}

const char* text_of(BagMode mode) {
  return mode == BagMode::sum ? "sum" : mode == BagMode::mean ? "mean" : "max";
}

/// The children that a module shows.
class Children final : public Visitor {
 public:
  using Visitor::child;
  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void child(std::string_view name, Module& module) override {
    all.emplace_back(std::string(name), &module);
  }
  std::vector<std::pair<std::string, Module*>> all;
};

std::string printed(const Module& held, const std::string& indent);

/// A line for each child. A ModuleList joins equal neighbours, as "(0-2): 3 x ReLU()".
std::string children_text(const Module& module, const Children& children,
                          const std::string& indent) {
  const bool joins = dynamic_cast<const ModuleList*>(&module) != nullptr;
  std::vector<std::string> texts;
  for (const auto& [name, child] : children.all) texts.push_back(printed(*child, indent));
  std::string all;
  for (std::size_t i = 0, next = 0; i < texts.size(); i = next) {
    for (next = i + 1; joins && next < texts.size() && texts[next] == texts[i];) ++next;
    const bool is_one = next == i + 1;
    all += concat('\n', indent, '(', children.all[i].first,
                  is_one ? "" : concat('-', children.all[next - 1].first),
                  "): ", is_one ? "" : concat(next - i, " x "), texts[i]);
  }
  return all;
}

std::string printed(const Module& held, const std::string& indent) {
  const Module& module = held.self();
  Children children;
  const_cast<Module&>(module).visit(children);  // visit may change what it shows; Children does not
  std::string options = module.extra_repr();
  const std::string inner = indent + "  ";
  const bool is_block = !children.all.empty() || options.find('\n') != std::string::npos;
  if (is_block && !options.empty()) {
    for (std::size_t at = 0; (at = options.find('\n', at)) != std::string::npos; at += inner.size())
      options.insert(++at, inner);
    options = concat('\n', inner, options);
  }
  return concat(detail::type_name(module), '(', options, children_text(module, children, inner),
                is_block ? concat('\n', indent) : "", ')');
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Module& model) {
  return out << printed(model, "");
}

std::string Linear::extra_repr() const {
  return named("in_features", in_features, "out_features", out_features, "bias", bias.defined());
}
std::string Bilinear::extra_repr() const {
  return named("in1_features", in1_features, "in2_features", in2_features, "out_features",
               out_features, "bias", bias.defined());
}
std::string detail::ConvLayer::text() const {
  std::string text = concat(in_channels, ", ", out_channels, ", kernel_size=", tuple(kernel),
                            ", stride=", tuple(stride));
  if (same_padding) {
    text += ", padding=same";
  } else if (!is(padding, 0)) {
    text += ", padding=" + tuple(padding);
  }
  if (!is(output_padding, 0)) text += ", output_padding=" + tuple(output_padding);
  if (!is(dilation, 1)) text += ", dilation=" + tuple(dilation);
  text += unless<std::int64_t>(1, "groups", groups) + unless(true, "bias", has_bias);
  if (padding_mode != PadMode::constant) text += concat(", padding_mode=", text_of(padding_mode));
  return text;
}
std::string BatchNorm::extra_repr() const {
  return concat(num_features, ", ",
                named("eps", options.eps, "momentum", options.momentum, "affine", options.affine,
                      "bias", bias.defined(), "track_running_stats", options.track_running_stats));
}
std::string InstanceNorm::extra_repr() const {
  return concat(num_features, ", ",
                named("eps", options.eps, "momentum", options.momentum, "affine", options.affine,
                      "bias", bias.defined(), "track_running_stats", options.track_running_stats));
}
std::string LayerNorm::extra_repr() const {
  return concat(tuple(normalized_shape), ", ",
                named("eps", eps, "elementwise_affine", weight.defined(), "bias", bias.defined()));
}
std::string GroupNorm::extra_repr() const {
  return concat(num_groups, ", ", num_channels, ", ",
                named("eps", eps, "affine", weight.defined(), "bias", bias.defined()));
}
std::string RMSNorm::extra_repr() const {
  return concat(tuple(normalized_shape), ", ",
                named("eps", eps, "elementwise_affine", weight.defined()));
}
std::string LocalResponseNorm::extra_repr() const {
  return concat(size, ", ", named("alpha", options.alpha, "beta", options.beta, "k", options.k));
}
std::string Embedding::extra_repr() const {
  return concat(num_embeddings, ", ", embedding_dim,
                padding_idx ? concat(", padding_idx=", *padding_idx) : "");
}
std::string EmbeddingBag::extra_repr() const {
  return concat(num_embeddings, ", ", embedding_dim, ", mode='", text_of(options.mode), "'",
                options.padding_idx ? concat(", padding_idx=", *options.padding_idx) : "");
}
std::string Dropout::extra_repr() const { return named("p", p, "inplace", false); }

std::string detail::max_pool_text(const Dims& kernel, const Dims& stride, const Dims& padding,
                                  const Dims& dilation, bool ceil_mode) {
  return named("kernel_size", kernel, "stride", is(stride, 0) ? kernel : stride, "padding", padding,
               "dilation", dilation, "ceil_mode", ceil_mode);
}
std::string detail::avg_pool_text(const Dims& kernel, const Dims& stride, const Dims& padding) {
  if (kernel.size() == 1) return unpool_text(kernel, stride, padding);
  return named("kernel_size", kernel, "stride", is(stride, 0) ? kernel : stride, "padding",
               padding);
}
std::string detail::unpool_text(const Dims& kernel, const Dims& stride, const Dims& padding) {
  return named("kernel_size", tuple(kernel), "stride", tuple(is(stride, 0) ? kernel : stride),
               "padding", tuple(padding));
}
std::string detail::lp_pool_text(double norm_type, const Dims& kernel, const Dims& stride,
                                 bool ceil_mode) {
  return named("norm_type", norm_type, "kernel_size", kernel, "stride",
               is(stride, 0) ? std::nullopt : std::optional(stride), "ceil_mode", ceil_mode);
}
std::string detail::adaptive_pool_text(const Dims& output_size) {
  return named("output_size", output_size);
}
std::string Upsample::extra_repr() const {
  const auto& [size, factors, mode, align_corners] = options;
  std::string text = "size=" + short_text(size.empty() ? Dims{0} : size);
  if (!factors.empty()) {
    text = factors.size() == 1 ? "scale_factor=" : "scale_factor=(";
    for (std::size_t i = 0; i < factors.size(); ++i)
      text += concat(i > 0 ? ", " : "", python_text(factors[i]));
    if (factors.size() > 1) text += ')';
  }
  return concat(text, ", mode='", mode, '\'');
}

std::string Pad::extra_repr() const { return tuple(padding); }
std::string Pad::text_with_value() const {
  return named("padding", tuple(padding), "value", value);
}

std::string Flatten::extra_repr() const {
  return named("start_dim", start_dim, "end_dim", end_dim);
}
std::string Unflatten::extra_repr() const {
  return named("dim", dim, "unflattened_size", tuple(unflattened_size));
}
std::string PixelShuffle::extra_repr() const { return named("upscale_factor", upscale_factor); }
std::string PixelUnshuffle::extra_repr() const {
  return named("downscale_factor", downscale_factor);
}
std::string ChannelShuffle::extra_repr() const { return named("groups", groups); }
std::string Unfold::extra_repr() const {
  return named("kernel_size", kernel_size, "dilation", options.dilation, "padding", options.padding,
               "stride", options.stride);
}
std::string Fold::extra_repr() const {
  return named("output_size", output_size, "kernel_size", kernel_size, "dilation", options.dilation,
               "padding", options.padding, "stride", options.stride);
}

std::string LeakyReLU::extra_repr() const { return named("negative_slope", negative_slope); }
std::string GELU::extra_repr() const {
  return approximate == GeluApproximation::none ? "approximate='none'" : "approximate='tanh'";
}
std::string ELU::extra_repr() const { return named("alpha", alpha); }
std::string CELU::extra_repr() const { return named("alpha", alpha); }
std::string GLU::extra_repr() const { return named("dim", dim); }
std::string PReLU::extra_repr() const { return named("num_parameters", weight.numel()); }
std::string RReLU::extra_repr() const { return named("lower", lower, "upper", upper); }
std::string Hardtanh::extra_repr() const { return named("min_val", min_val, "max_val", max_val); }
std::string Hardshrink::extra_repr() const { return python_text(lambd); }
std::string Softshrink::extra_repr() const { return python_text(lambd); }
std::string Threshold::extra_repr() const { return named("threshold", threshold, "value", value); }
std::string Softplus::extra_repr() const { return named("beta", beta, "threshold", threshold); }
std::string Softmax::extra_repr() const { return named("dim", dim); }
std::string LogSoftmax::extra_repr() const { return named("dim", dim); }
std::string Softmin::extra_repr() const { return named("dim", dim); }

std::string Recurrent::extra_repr() const {
  const std::int64_t one = 1, none = 0;
  return concat(input_size, ", ", hidden_size, unless(none, "proj_size", options.proj_size),
                unless(one, "num_layers", options.num_layers), unless(true, "bias", options.bias),
                unless(false, "batch_first", options.batch_first),
                unless(0.0, "dropout", options.dropout),
                unless(false, "bidirectional", options.bidirectional));
}
std::string RecurrentCell::extra_repr() const {
  return concat(input_size, ", ", hidden_size, unless(true, "bias", options.bias),
                options.nonlinearity == RNNNonlinearity::relu ? ", nonlinearity=relu" : "");
}

std::string detail::Parameters::extra_repr() const {
  std::string text;
  for (const std::string& key : parameters_.keys()) {
    const Tensor& p = parameters_.at(key);
    if (!p.defined()) continue;
    text += concat(text.empty() ? "  (" : "\n  (", key, "): Parameter containing: [", p.dtype(),
                   " of size ");
    for (std::int64_t i = 0; i < p.dim(); ++i) text += concat(i > 0 ? "x" : "", p.size(i));
    text += ']';
  }
  return text;
}

}  // namespace rondo::nn
