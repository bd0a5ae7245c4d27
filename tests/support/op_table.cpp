#include "support/op_table.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "autograd/engine.h"
#include "autograd/ops/shape.h"

namespace rondo::test {

const std::vector<Op>& op_table() {
  static const std::vector<Op> table = [] {
    std::vector<Op> rows;
    for (auto part : {elementwise_rows, structure_rows, index_rows, layer_rows, composed_rows}) {
      for (Op& op : part()) rows.push_back(std::move(op));
    }
    return rows;
  }();
  return table;
}

namespace {

Tensor drawn(const OpInput& input, Generator& generator) {
  std::int64_t n = numel_of(input.shape);
  double range = input.high - input.low;
  Tensor unit = input.distinct ? randperm(n, {.dtype = f64}, generator)
                               : rand({n}, {.dtype = f64}, generator);
  for (std::int64_t i = 0; i < n; ++i) {
    double& value = unit.data_ptr<double>()[i];
    double part = input.distinct ? (value + 0.5) / static_cast<double>(n) : value;
    value = input.low + range * part;
  }
  return unit.as_view(input.shape, strides_of(input.shape), 0);
}

/// Fixed numbers in [-1, 1) with y's shape, exact in bf16 and therefore in every dtype.
Tensor weights_for(const Tensor& y, std::uint64_t seed) {
  Generator generator(seed);
  Tensor w = drawn({y.shape()}, generator);
  return converted(converted(w, bf16), y.dtype());
}

/// The gradients of sum(weights · ys), zeros without a path.
Tensors weighted_gradient(const Tensors& ys, const Tensors& xs, std::uint64_t seed,
                          bool create_graph) {
  Tensors outputs, weights;
  for (const Tensor& y : ys) {
    if (!y.requires_grad()) continue;
    outputs.push_back(y);
    weights.push_back(weights_for(y, ++seed).to(y.device()));
  }
  Tensors gradients(xs.size());
  if (!outputs.empty()) {
    gradients = grad(outputs, xs,
                     {.grad_outputs = weights, .create_graph = create_graph, .allow_unused = true});
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = zeros(xs[i].shape(), xs[i].options());
  }
  return gradients;
}

}  // namespace

std::vector<std::string> declared_ops() {
  std::set<std::string> names;
  if (!std::filesystem::exists(RONDO_OPS_DIR)) return {};  // a program without its sources
  const std::regex declaration("^(?:Tensor|Tensors|ValuesAndIndices) ([a-z_0-9]+)\\(");
  for (const auto& entry : std::filesystem::directory_iterator(RONDO_OPS_DIR)) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    bool is_public = true;
    for (std::string line; std::getline(in, line);) {
      if (line.ends_with("namespace detail {")) is_public = false;
      if (line.ends_with("namespace detail")) is_public = true;
      std::smatch match;
      if (is_public && std::regex_search(line, match, declaration)) names.insert(match[1]);
    }
  }
  return {names.begin(), names.end()};
}

Tensors inputs_of(const Op& op, DType exact_in) {
  std::uint64_t seed = 14695981039346656037u;  // FNV-1a: the same with every library
  for (char c : op.name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211u;
  Generator generator(seed);
  Tensors inputs;
  for (const OpInput& input : op.inputs) {
    inputs.push_back(converted(converted(drawn(input, generator), exact_in), f64));
  }
  return inputs;
}

Derivatives derivatives(const Op& op, const Tensors& inputs, DType dtype, Layout layout,
                        bool create_graph, Device device) {
  Tensors xs;
  for (const Tensor& input : inputs) {
    xs.push_back(relaid(layout, input, dtype, device));
    xs.back().requires_grad_();
  }
  Derivatives result;
  result.outputs = op.f(xs);
  result.first = weighted_gradient(result.outputs, xs, 100, create_graph);
  if (create_graph) result.second = weighted_gradient(result.first, xs, 200, false);
  for (Tensors* tensors : {&result.outputs, &result.first, &result.second})
    for (Tensor& t : *tensors) t = t.to(Device::cpu());
  return result;
}

}  // namespace rondo::test
