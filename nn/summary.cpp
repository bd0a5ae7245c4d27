#include "nn/summary.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <sstream>

#include "autograd/grad_mode.h"
#include "nn/eval_mode.h"
#include "nn/observe.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

/// The parameters of the module itself, without those of its children.
std::vector<Tensor> own_parameters(Module& module) {
  std::vector<Tensor> own;
  for (const auto& [name, p] : module.named_parameters())
    if (name.find('.') == std::string::npos) own.push_back(p);
  return own;
}

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t n) {
  const std::string digits = std::to_string(n);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}
std::string mebibytes(std::int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

}  // namespace

ModelSummary summarize(const ModelCall& call) {
  Module& model = call.model;
  ModelSummary summary;
  std::map<const Module*, std::string> names;
  for (const auto& [name, module] : model.named_modules()) names.emplace(&module->self(), name);
  std::set<const TensorImpl*> counted;
  for (const auto& [name, p] : model.named_parameters()) {
    summary.parameters += p.numel();
    summary.parameter_bytes += p.nbytes();
    if (p.requires_grad()) summary.trained += p.numel();
  }
  for (const auto& [name, buffer] : model.named_buffers()) summary.buffer_bytes += buffer.nbytes();

  std::map<const Module*, std::size_t> places;
  const auto add = [&](Module& module, const Tensors& inputs, const Tensors& outputs) {
    const std::vector<Tensor> own = own_parameters(module);
    const std::int64_t multiply_adds = module.multiply_adds_of(inputs, outputs);
    if (own.empty() && multiply_adds == 0 && module.named_modules().size() > 1)
      return;  // observed through its children
    const auto [place, is_new] = places.emplace(&module, summary.layers.size());
    if (is_new) {
      const auto name = names.find(&module);
      LayerSummary layer{.name = name == names.end() ? "" : name->second,
                         .type = detail::type_name(module)};
      for (const Tensor& p : own)
        if (counted.insert(p.impl_ptr().get()).second) layer.parameters += p.numel();
      summary.layers.push_back(std::move(layer));
    }
    LayerSummary& layer = summary.layers[place->second];
    if (!inputs.empty()) layer.input = inputs[0].shape();
    if (!outputs.empty()) layer.output = outputs[0].shape();
    ++layer.calls;
    layer.multiply_adds += multiply_adds;
    summary.multiply_adds += multiply_adds;
    for (const Tensor& y : outputs) summary.output_bytes += y.nbytes();
  };
  const ForwardObserver observer([&](Module& module, Tensors inputs, Tensors outputs) {
    for (Tensors* tensors : {&inputs, &outputs})
      std::erase_if(*tensors, [](const Tensor& x) { return !x.defined(); });
    add(module, inputs, outputs);
  });
  const EvalMode eval(model);
  const NoGradGuard no_grad;
  Tensors inputs;
  for (const NamedTensor& input : call.inputs) inputs.push_back(input.tensor);
  call.run(inputs);
  return summary;
}

ModelSummary summarize(Module& model, const Dims& input) {
  const auto parameters = model.parameters();
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].device();
  return summarize(model, zeros(input, {.device = device}));
}

std::ostream& operator<<(std::ostream& out, const ModelSummary& summary) {
  std::vector<std::vector<std::string>> rows = {{"layer", "output", "parameters", "multiply-adds"}};
  for (const LayerSummary& layer : summary.layers) {
    std::string name = layer.name.empty() ? layer.type : concat(layer.name, " (", layer.type, ")");
    if (layer.calls > 1) name = concat(name, " x", layer.calls);
    rows.push_back({std::move(name), concat(layer.output), grouped(layer.parameters),
                    grouped(layer.multiply_adds)});
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out << (i > 0 ? "  " : "") << (i < 2 ? std::left : std::right)
          << std::setw(static_cast<int>(widths[i])) << row[i];
    out << "\n";
  }
  return out << grouped(summary.parameters) << " parameters (" << mebibytes(summary.parameter_bytes)
             << "), of which " << grouped(summary.trained) << " are trained; buffers "
             << mebibytes(summary.buffer_bytes) << "\n"
             << grouped(summary.multiply_adds) << " multiply-adds; outputs of all layers "
             << mebibytes(summary.output_bytes) << "\n";
}

}  // namespace rondo::nn
