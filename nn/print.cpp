// How models are printed: the tree, and the options of each layer, in PyTorch's words.

#include <ostream>
#include <sstream>

#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "nn/conv_transpose2d.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "nn/pooling.h"
#include "nn/recurrent.h"

namespace rondo::nn {
namespace {

const char* text_of(bool value) { return value ? "True" : "False"; }
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? concat(*value) : "None";
}
std::string tuple(const Pair& pair) { return concat('(', pair.h, ", ", pair.w, ')'); }
std::string tuple(std::int64_t value) { return concat('(', value, ",)"); }
std::string tuple(const Dims& sizes) {
  std::string text = "(";
  for (std::int64_t i = 0; i < sizes.size(); ++i) text += concat(i > 0 ? ", " : "", sizes[i]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}
/// A pair as users write it: one number for two equal ones.
std::string short_text(const Pair& pair) { return pair.h == pair.w ? concat(pair.h) : tuple(pair); }
bool is(const Pair& pair, std::int64_t value) { return pair.h == value && pair.w == value; }
bool is(std::int64_t number, std::int64_t value) { return number == value; }

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

/// ", padding=(1, 1)", or nothing. outer_padding has both sides of the last dimension first.
template <class Conv>
std::string padding(const Conv& c) {
  if constexpr (requires { c.outer_padding; }) {
    if (c.options.same_padding) return ", padding=same";
    const Dims& outer = c.outer_padding;
    if (outer.size() == 2) return ", padding=" + tuple(outer[0]);
    if (outer.size() == 4) return ", padding=" + tuple(Pair(outer[2], outer[0]));
  }
  return is(c.options.padding, 0) ? "" : ", padding=" + tuple(c.options.padding);
}

/// What convolutions have in common; options that have their usual values are left out.
template <class Conv>
std::string convolution(const Conv& c) {
  const auto& o = c.options;
  std::string text = concat(c.in_channels, ", ", c.out_channels,
                            ", kernel_size=", tuple(c.kernel_size), ", stride=", tuple(o.stride));
  text += padding(c);
  if constexpr (requires { o.output_padding; }) {
    if (!is(o.output_padding, 0)) text += ", output_padding=" + tuple(o.output_padding);
  }
  if (!is(o.dilation, 1)) text += ", dilation=" + tuple(o.dilation);
  if (o.groups != 1) text += concat(", groups=", o.groups);
  if (!c.bias.defined()) text += ", bias=False";
  if constexpr (requires { o.padding_mode; }) {
    if (o.padding_mode != PadMode::constant)
      text += concat(", padding_mode=", text_of(o.padding_mode));
  }
  return text;
}

/// "kernel_size=2, stride=2, padding=0"
template <class Pool>
std::string window(const Pool& p) {
  const Pair& stride = is(p.options.stride, 0) ? p.kernel_size : p.options.stride;
  return concat("kernel_size=", short_text(p.kernel_size), ", stride=", short_text(stride),
                ", padding=", short_text(p.options.padding));
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

void print(std::ostream& out, const Module& held, const std::string& indent) {
  const Module& module = held.self();
  Children children;
  const_cast<Module&>(module).visit(children);  // visit may change what it shows; Children does not
  out << detail::type_name(module) << '(';
  const std::string options = module.extra_repr();
  if (children.all.empty()) {
    out << options << ')';
    return;
  }
  const std::string inner = indent + "  ";
  if (!options.empty()) out << '\n' << inner << options;
  for (const auto& [name, child] : children.all) {
    out << '\n' << inner << '(' << name << "): ";
    print(out, *child, inner);
  }
  out << '\n' << indent << ')';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Module& model) {
  std::ostringstream text;  // numbers as they are by default, whatever the state of `out`
  print(text, model, "");
  return out << text.str();
}

std::string Linear::extra_repr() const {
  return concat("in_features=", in_features, ", out_features=", out_features,
                ", bias=", text_of(bias.defined()));
}
std::string Conv1d::extra_repr() const { return convolution(*this); }
std::string Conv2d::extra_repr() const { return convolution(*this); }
std::string ConvTranspose2d::extra_repr() const { return convolution(*this); }
std::string BatchNorm::extra_repr() const {
  return concat(num_features, ", eps=", options.eps, ", momentum=", text_of(options.momentum),
                ", affine=", text_of(options.affine), ", bias=", text_of(bias.defined()),
                ", track_running_stats=", text_of(options.track_running_stats));
}
std::string LayerNorm::extra_repr() const {
  return concat(tuple(normalized_shape), ", eps=", eps,
                ", elementwise_affine=", text_of(weight.defined()),
                ", bias=", text_of(bias.defined()));
}
std::string GroupNorm::extra_repr() const {
  return concat(num_groups, ", ", num_channels, ", eps=", eps,
                ", affine=", text_of(weight.defined()), ", bias=", text_of(bias.defined()));
}
std::string RMSNorm::extra_repr() const {
  return concat(tuple(normalized_shape), ", eps=", text_of(eps),
                ", elementwise_affine=", text_of(weight.defined()));
}
std::string Embedding::extra_repr() const {
  return concat(num_embeddings, ", ", embedding_dim,
                padding_idx ? concat(", padding_idx=", *padding_idx) : "");
}
std::string Dropout::extra_repr() const { return concat("p=", p, ", inplace=False"); }
std::string MaxPool2d::extra_repr() const {
  return concat(window(*this), ", dilation=", short_text(options.dilation),
                ", ceil_mode=", text_of(options.ceil_mode));
}
std::string AvgPool2d::extra_repr() const { return window(*this); }
std::string AdaptiveAvgPool2d::extra_repr() const {
  return "output_size=" + short_text(output_size);
}
std::string Flatten::extra_repr() const {
  return concat("start_dim=", start_dim, ", end_dim=", end_dim);
}
std::string LeakyReLU::extra_repr() const { return concat("negative_slope=", negative_slope); }
std::string Recurrent::extra_repr() const {
  std::string text = concat(input_size, ", ", hidden_size);
  if (options.num_layers != 1) text += concat(", num_layers=", options.num_layers);
  if (!options.bias) text += ", bias=False";
  if (options.batch_first) text += ", batch_first=True";
  if (options.dropout != 0) text += concat(", dropout=", options.dropout);
  if (options.bidirectional) text += ", bidirectional=True";
  return text;
}

}  // namespace rondo::nn
