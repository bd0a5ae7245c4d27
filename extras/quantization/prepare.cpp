#include "extras/quantization/prepare.h"

#include <algorithm>
#include <map>
#include <set>
#include <typeinfo>

#include "autograd/autograd_meta.h"
#include "autograd/node.h"
#include "extras/quantization/int8.h"
#include "extras/quantization/prepared.h"
#include "nn/batch_norm.h"
#include "nn/eval_mode.h"
#include "nn/observe.h"
#include "nn/select.h"

namespace rondo::nn {
namespace {

/// The module as an M; null if it is of another type. A type derived from M may compute something
/// else, so it stays as it is.
template <class M>
M* exactly(Module* module) {
  return typeid(*module) == typeid(M) ? dynamic_cast<M*>(module) : nullptr;
}

/// The layers of type M, each once, except those that match `skip`.
template <class M>
std::vector<std::pair<std::string, M*>> layers_of(Module& model,
                                                  const std::vector<std::string>& skip) {
  std::vector<std::pair<std::string, M*>> layers;
  std::set<Module*> seen;
  for (auto& [name, module] : model.named_modules()) {
    auto* layer = exactly<M>(module);
    const bool skipped = std::any_of(
        skip.begin(), skip.end(),
        [&layer_name = name](const std::string& pattern) { return matches(layer_name, pattern); });
    if (layer != nullptr && !skipped && seen.insert(layer).second) layers.emplace_back(name, layer);
  }
  return layers;
}

/// The number of edges of the tape behind y that lead to each node.
std::map<const Node*, int> uses_behind(const Tensor& y) {
  std::map<const Node*, int> uses;
  std::vector<Node*> todo = {gradient_edge(y).node.get()};
  while (!todo.empty()) {
    Node* node = todo.back();
    todo.pop_back();
    if (node == nullptr) continue;
    for (const Edge& edge : node->edges)
      if (edge.node && ++uses[edge.node.get()] == 1) todo.push_back(edge.node.get());
  }
  return uses;
}

/// Each convolution whose output goes only to a batch norm with running statistics, if both run
/// exactly once.
std::map<const Module*, BatchNorm2d*> pairs_of(Module& model, const Tensor& example) {
  struct Call {
    Module* module;
    Tensor x, y;
  };
  std::vector<Call> convolutions, norms;
  std::map<const Module*, int> calls;
  const EvalMode eval(model);
  const GradModeGuard recording(true);
  Tensor input = example.detach();
  if (is_floating(input.dtype())) input.requires_grad_();
  Tensor output;
  {
    const ForwardObserver observer([&](Module& module, const Tensors& x, const Tensors& y) {
      ++calls[&module];
      if (exactly<Conv2d>(&module)) convolutions.push_back({&module, x[0], y[0]});
      if (exactly<BatchNorm2d>(&module)) norms.push_back({&module, x[0], y[0]});
    });
    output = model(input);
  }
  std::map<const Node*, int> uses = uses_behind(output);
  std::map<const Module*, BatchNorm2d*> pairs;
  for (const Call& norm : norms) {
    for (const Call& conv : convolutions) {
      auto* bn = exactly<BatchNorm2d>(norm.module);
      if (norm.x.is_same(conv.y) && calls[conv.module] == 1 && calls[bn] == 1 &&
          bn->running_mean.defined() && uses[gradient_edge(conv.y).node.get()] == 1)
        pairs.emplace(conv.module, bn);
    }
  }
  return pairs;
}

std::int64_t prepare(Module& model, const Tensor& example, const QConfig& config, bool rounds) {
  const auto linears = layers_of<Linear>(model, config.skip);
  const auto convolutions = layers_of<Conv2d>(model, config.skip);
  require(!linears.empty() || !convolutions.empty(),
          "prepare: the model has no Linear or Conv2d, except those in `skip`");
  const auto pairs = pairs_of(model, example);
  std::map<const Module*, std::string> names;
  for (auto& [name, module] : model.named_modules()) names.emplace(module, name);

  for (auto& [name, linear] : linears) {
    PreparedLinear prepared(*linear, config.activation);
    prepared.input.fake_quant_enabled = rounds;
    prepared.train(linear->is_training());
    model.set_submodule(name, std::move(prepared));
  }
  for (auto& [name, conv] : convolutions) {
    const auto pair = pairs.find(conv);
    BatchNorm2d* bn = pair == pairs.end() ? nullptr : pair->second;
    const std::string bn_path = bn == nullptr ? "" : names.at(bn);
    PreparedConv2d prepared(*conv, bn, bn_path, config.activation);
    prepared.input.fake_quant_enabled = rounds;
    model.set_submodule(name, std::move(prepared));
    if (bn != nullptr) model.set_submodule(bn_path, FoldedBatchNorm());
  }
  return static_cast<std::int64_t>(linears.size() + convolutions.size());
}

/// The range that the layer `name` has observed.
Quantization calibrated(const std::string& name, const FakeQuantize& input) {
  try {
    return input.quantization();
  } catch (const Error& error) {
    throw Error(concat("convert: ", name, ": ", error.what()));
  }
}

void for_each_fake_quantize(Module& model, const std::function<void(FakeQuantize&)>& f) {
  model.apply([&](Module& module) {
    if (auto* fake = dynamic_cast<FakeQuantize*>(&module)) f(*fake);
  });
}

}  // namespace

std::int64_t quantize_dynamic(Module& model, const std::vector<std::string>& skip) {
  const auto layers = layers_of<Linear>(model, skip);
  require(!layers.empty(), "quantize_dynamic: the model has no Linear, except those in `skip`");
  std::vector<Int8Linear> made;
  for (auto& [name, linear] : layers) made.emplace_back(*linear);
  for (std::size_t i = 0; i < layers.size(); ++i)
    model.set_submodule(layers[i].first, std::move(made[i]));
  return static_cast<std::int64_t>(layers.size());
}

std::int64_t prepare(Module& model, const Tensor& example, const QConfig& config) {
  return prepare(model, example, config, false);
}

std::int64_t prepare_qat(Module& model, const Tensor& example, const QConfig& config) {
  return prepare(model, example, config, true);
}

std::int64_t convert(Module& model) {
  const auto linears = layers_of<PreparedLinear>(model, {});
  const auto convolutions = layers_of<PreparedConv2d>(model, {});
  require(!linears.empty() || !convolutions.empty(),
          "convert: the model has no prepared layer: call prepare or prepare_qat first");
  std::map<std::string, FoldedBatchNorm*> folded;
  for (auto& [name, bn] : layers_of<FoldedBatchNorm>(model, {})) folded.emplace(name, bn);

  std::vector<std::pair<std::string, AnyModule>> made;
  std::vector<FoldedBatchNorm*> without_relu;
  for (auto& [name, layer] : linears)
    made.emplace_back(name, Int8Linear(layer->linear, calibrated(name, layer->input)));
  for (auto& [name, layer] : convolutions) {
    const auto bn = folded.find(layer->bn_path);
    require(!layer->bn || bn != folded.end(), "convert: ", name, ": the batch norm at ",
            layer->bn_path,
            " does not exist any longer: convert the whole model that was prepared");
    const bool relu = layer->bn && bn->second->relus > 0 && bn->second->others == 0;
    if (relu) without_relu.push_back(bn->second);
    made.emplace_back(name, Int8Conv2d(layer->folded(), calibrated(name, layer->input), relu));
  }
  for (auto& [name, bn] : folded) bn->counts = false;
  for (FoldedBatchNorm* bn : without_relu) bn->does_relu = false;
  for (auto& [name, module] : made) model.set_submodule(name, std::move(module));
  return static_cast<std::int64_t>(made.size());
}

void enable_observer(Module& model, bool on) {
  for_each_fake_quantize(model, [on](FakeQuantize& fake) { fake.observer_enabled = on; });
}
void enable_fake_quant(Module& model, bool on) {
  for_each_fake_quantize(model, [on](FakeQuantize& fake) { fake.fake_quant_enabled = on; });
}
void freeze_bn_stats(Module& model) {
  model.apply([](Module& module) {
    if (auto* bn = dynamic_cast<BatchNorm*>(&module)) bn->eval();
  });
}

}  // namespace rondo::nn
