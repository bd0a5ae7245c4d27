// Rules for products, convolutions, norms, softmax, pooling and embeddings.

#include <set>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "extras/export_cpp/lowering.h"
#include "tensor/creation.h"

namespace rondo::io::detail {
namespace {

/// The known value of argument i, or `otherwise`: the argument is absent, or with_computed follows.
Place weights_or(Lowering& l, Index i, const Tensor& otherwise) {
  const Tensor value = l.known(i);
  return l.weights(value.defined() ? value : otherwise);
}

/// Combines the result of the last step with argument i if forward computes that, as in
/// linear(x, w, a + b). `shape` broadcasts the argument to the result.
void with_computed(Lowering& l, const char* expression, Index i, const Dims& shape) {
  if (l.is_computed(i)) l.combine(expression, l.out(), l.result(), l.in(i), shape);
}

/// The shape of one number for each channel, dimension 1 of `rank` dimensions.
Dims channels_of(Int channels, Int rank) {
  Dims shape = Dims::filled(rank, 1);
  shape[1] = channels;
  return shape;
}

void linear(Lowering& l) {
  const Tensor w = l.weight(1);
  const Dims x = l.shape(0);
  l.add("linear", list(product(x, 0, x.size() - 1), w.size(1), w.size(0)),
        {l.in(), l.weights(w), weights_or(l, 2, zeros({w.size(0)}))}, l.result());
  with_computed(l, "a + b", 2, {w.size(0)});
}

void bmm(Lowering& l) {
  const Dims a = l.shape(0), b = l.shape(1);
  l.add("bmm", list(a[0], a[1], a[2], b[2]), {l.in(0), l.in(1)}, l.result());
}

void conv2d(Lowering& l) {
  const Tensor w = l.weight(1);
  const Dims x = l.shape(0), &stride = l.integers("stride"), &padding = l.integers("padding"),
             &dilation = l.integers("dilation");
  const Int groups = l.integer("groups"), c = w.size(1), k = w.size(0) / groups;
  const bool pads = padding[0] != 0 || padding[1] != 0;
  std::vector<Place> operands = {l.in(), l.weights(w), weights_or(l, 2, zeros({w.size(0)}))};
  if (groups == 1 && w.size(2) == 1 && w.size(3) == 1 && stride[0] == 1 && stride[1] == 1 &&
      !pads) {
    l.add("pointwise", list(x[0], c, x[2] * x[3], k), operands, l.result());
    return with_computed(l, "a + b", 2, channels_of(w.size(0), 4));
  }
  const bool depthwise = c == 1 && k == 1;
  operands.push_back(
      pads ? l.buffer({depthwise ? 1 : c, x[2] + 2 * padding[0], x[3] + 2 * padding[1]}) : Place{});
  const std::string image = list(x[2], x[3]),
                    window = list(w.size(2), w.size(3), stride[0], stride[1], padding[0],
                                  padding[1], dilation[0], dilation[1]);
  if (depthwise)
    l.add("depthwise", list(x[0], groups, image, window), operands, l.result());
  else
    l.add("conv2d", list(x[0], groups, c, image, k, window), operands, l.result());
  with_computed(l, "a + b", 2, channels_of(w.size(0), 4));
}

/// A product gives what each pixel of x adds to the elements of a window of y; `overlap` adds them.
void conv_transpose2d(Lowering& l) {
  const Tensor w = l.weight(1);
  const Dims x = l.shape(0), &stride = l.integers("stride"), &padding = l.integers("padding"),
             &dilation = l.integers("dilation");
  require(l.integer("groups") == 1, place_of(l.node()), " has ", l.integer("groups"),
          " groups; only 1 has a C++ form");
  const Int added = product(w.shape(), 1, 4);
  l.add("pointwise", list(x[0], x[1], x[2] * x[3], added),
        {l.in(), l.weights(w.reshape({x[1], added}).t()), l.weights(zeros({added}))},
        {x[0], added, x[2], x[3]});
  Step& step = l.add("overlap", "", {l.out()}, l.result());
  step.numbers =
      list(x[0] * w.size(1), x[2], x[3], l.result()[2], l.result()[3], w.size(2), w.size(3),
           stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1]);
}

/// y = x scale + shift for each channel, in the weights of the layer before it if possible.
void batch_norm(Lowering& l) {
  const Int channels = l.result()[1];
  const auto wide = [&](Index i, double without) {
    const Tensor value = l.known(i);
    return value.defined() ? value.to(f64) : full({channels}, without, {.dtype = f64});
  };
  for (const Index i : {Index{3}, Index{4}})
    require(!l.is_computed(i), place_of(l.node()),
            ": forward computes its running statistics, which must be buffers for a C++ form");
  const bool is_computed = l.is_computed(1) || l.is_computed(2);
  const Tensor factor = wide(1, 1) / sqrt(wide(4, 1) + l.real("eps"));
  const Tensor shift = wide(2, 0) - wide(3, 0) * factor;
  const Place x = l.in();
  Step* layer = l.maker(x);
  static const std::set<std::string_view> layers = {"linear", "conv2d", "pointwise", "depthwise"};
  // The layer's result may have another shape; its channels must be those of the batch norm.
  if (layer != nullptr && !is_computed && layers.contains(layer->kernel) && layer->then.empty() &&
      layer->result.size() >= 2 && layer->result[0] == l.result()[0] &&
      layer->result[1] == channels && (layer->kernel != "linear" || l.result().size() == 2)) {
    Tensor &w = l.program().weights[layer->operands[1].index],
           &b = l.program().weights[layer->operands[2].index];
    Dims column = {channels};
    while (column.size() < w.dim()) column.push_back(1);
    w = (w.to(f64) * factor.reshape(column)).to(f32);
    b = (b.to(f64) * factor + shift).to(f32);
    l.out() = x;
    return;
  }
  // A computed weight multiplies the normalised numbers before the bias is added.
  const bool later = l.is_computed(1);
  const Tensor bias = wide(2, 0);
  l.add("scale", "", {x, l.weights(factor), l.weights(later ? shift - bias : shift)}, l.result())
      .numbers = list(l.result()[0], channels, product(l.result(), 2, l.result().size()));
  const Dims shape = channels_of(channels, l.result().size());
  with_computed(l, "a * b", 1, shape);
  if (later && l.known(2).defined())
    l.combine("a + b", l.out(), l.result(), l.weights(bias), shape);
  with_computed(l, "a + b", 2, shape);
}

void layer_norm(Lowering& l) {
  const Dims x = l.shape(0);
  const Int n = product(x, x.size() - l.integer("dims"), x.size());
  // A computed weight multiplies the normalised numbers before the bias is added.
  const bool later = l.is_computed(1);
  Step& step = l.add("layer_norm", "",
                     {l.in(), weights_or(l, 1, ones({n})),
                      later ? l.weights(zeros({n})) : weights_or(l, 2, zeros({n}))},
                     l.result());
  step.numbers = list(numel_of(x) / n, n, digits_of(l.real("eps")));
  if (later) with_computed(l, "a * b", 1, l.shape(1));
  if (later && l.known(2).defined())
    l.combine("a + b", l.out(), l.result(), l.weights(l.known(2)), l.shape(2));
  if (l.is_computed(2)) with_computed(l, "a + b", 2, l.shape(2));
}

void softmax(Lowering& l, const char* log) {
  const Dims x = l.shape(0);
  const Int dim = l.integer("dim");
  Step& step = l.add("softmax", log, {l.in()}, l.result());
  step.takes_then = false;
  step.in_place = true;
  step.numbers = list(product(x, 0, dim), x[dim], product(x, dim + 1, x.size()));
}

void pool(Lowering& l, const char* greatest) {
  const Dims x = l.shape(0), &kernel = l.integers("kernel"), &stride = l.integers("stride"),
             &padding = l.integers("padding");
  const bool counts = std::string_view(greatest) == "false" && l.integer("count_include_pad") == 1;
  Step& step = l.add("pool2d", list(greatest, counts ? "true" : "false"), {l.in()}, l.result());
  step.takes_then = false;
  step.numbers = list(x[0] * x[1], x[2], x[3], l.result()[2], l.result()[3], kernel[0], kernel[1],
                      stride[0], stride[1], padding[0], padding[1]);
}

void adaptive_avg_pool2d(Lowering& l) {
  const Dims x = l.shape(0);
  Step& step = l.add("adaptive_avg_pool2d", "", {l.in()}, l.result());
  step.takes_then = false;
  step.numbers = list(x[0] * x[1], x[2], x[3], l.result()[2], l.result()[3]);
}

void embedding(Lowering& l) {
  const Tensor table = l.weight(0), index = l.attribute<Tensor>("index");
  if (index.storage() != l.input().storage()) {  // constant indices
    l.set_known(index_select(table, 0, index.reshape({index.numel()})).reshape(l.result()));
    return;
  }
  require(index.numel() == l.input().numel() && index.is_contiguous(), place_of(l.node()),
          " must get the input as it is, for a C++ form");
  Step& step =
      l.add("embedding", "", {Place{.kind = Place::Kind::input}, l.weights(table)}, l.result());
  step.takes_then = false;
  step.numbers = list(index.numel(), table.size(0), table.size(1));
}

}  // namespace

void add_layer_rules(Rules& rules) {
  rules.insert({{"linear", linear},
                {"bmm", bmm},
                {"conv2d", conv2d},
                {"conv_transpose2d", conv_transpose2d},
                {"batch_norm_inference", batch_norm},
                {"layer_norm", layer_norm},
                {"softmax", [](Lowering& l) { softmax(l, "false"); }},
                {"log_softmax", [](Lowering& l) { softmax(l, "true"); }},
                {"max_pool2d", [](Lowering& l) { pool(l, "true"); }},
                {"avg_pool2d", [](Lowering& l) { pool(l, "false"); }},
                {"adaptive_avg_pool2d", adaptive_avg_pool2d},
                {"embedding", embedding}});
}

}  // namespace rondo::io::detail
