#include "nn/summary.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <sstream>

#include "autograd/grad_mode.h"
#include "nn/attention.h"
#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "nn/conv_transpose2d.h"
#include "nn/eval_mode.h"
#include "nn/linear.h"
#include "nn/observe.h"
#include "nn/quantized/int8.h"
#include "nn/quantized/prepared.h"
#include "nn/recurrent.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

/// Of the three projections, and of the scores and averages of all heads, masked or not. `key` and
/// y are (L, N, E), the batch first or second, or (L, E).
std::int64_t multiply_adds(const MultiheadAttention& attention, const Tensor& key,
                           const Tensor& y) {
  const std::int64_t width = attention.embed_dim;
  const std::int64_t keys = key.dim() == 2 ? key.size(0) : key.size(attention.options.batch_first);
  return (y.numel() + 2 * key.numel()) * width + 2 * y.numel() * keys;
}

std::int64_t multiply_adds(const Module& module, const Tensor& x, const Tensor& y) {
  if (const auto* conv = dynamic_cast<const Conv2d*>(&module))
    return y.numel() * (conv->weight.numel() / std::max<std::int64_t>(conv->out_channels, 1));
  if (const auto* conv = dynamic_cast<const Conv1d*>(&module))
    return y.numel() * (conv->weight.numel() / conv->out_channels);
  if (const auto* conv = dynamic_cast<const ConvTranspose2d*>(&module))
    return x.numel() * (conv->weight.numel() / conv->in_channels);
  if (const auto* attention = dynamic_cast<const MultiheadAttention*>(&module))
    return multiply_adds(*attention, x, y);
  if (const auto* recurrent = dynamic_cast<const Recurrent*>(&module)) {
    std::int64_t a_step = 0;
    for (const RecurrentWeights& w : recurrent->weights)
      a_step += w.weight_ih.numel() + w.weight_hh.numel();
    return x.numel() / recurrent->input_size * a_step;
  }
  if (const auto* linear = dynamic_cast<const Linear*>(&module))
    return y.numel() * linear->in_features;
  // Quantised: as many products, of bytes.
  if (const auto* linear = dynamic_cast<const Int8Linear*>(&module))
    return y.numel() * linear->in_features;
  if (const auto* conv = dynamic_cast<const Int8Conv2d*>(&module))
    return y.numel() * (conv->weight_int8.numel() / std::max<std::int64_t>(conv->out_channels, 1));
  if (const auto* prepared = dynamic_cast<const PreparedLinear*>(&module))
    return multiply_adds(prepared->linear, x, y);
  if (const auto* prepared = dynamic_cast<const PreparedConv2d*>(&module))
    return multiply_adds(prepared->conv, x, y);
  return 0;
}

/// Those of the module itself.
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

ModelSummary summarize(Module& model, const Tensor& input) {
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
  const ForwardObserver observer([&](Module& module, const Tensor& x, const Tensor& y) {
    const std::vector<Tensor> own = own_parameters(module);
    if (own.empty() && module.named_modules().size() > 1) return;  // what is in it is seen
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
    layer.input = x.shape();
    layer.output = y.shape();
    ++layer.calls;
    layer.multiply_adds += multiply_adds(module, x, y);
    summary.multiply_adds += multiply_adds(module, x, y);
    summary.output_bytes += y.nbytes();
  });
  const EvalMode eval(model);
  const NoGradGuard no_grad;
  model(input);
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
