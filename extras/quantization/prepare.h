#pragma once
// Converts a trained model to one that computes in bytes, as torch.ao.quantization does.
//
//   nn::quantize_dynamic(model);               // Linear layers, nothing else to do
//
//   nn::prepare(model, example);               // static: also convolutions
//   for (…) model(images);                     // calibrate: a few hundred inputs, no labels
//   nn::convert(model);
//
//   nn::prepare_qat(model, example);           // continue training with the rounding
//   …
//   nn::convert(model);
//
// Layers are replaced in place (Module::set_submodule), whatever type their owner declared. To load
// a quantised state dict, first convert a model of the same kind to the same form.
//
// A batch norm after a convolution is a factor and an offset for each channel once its statistics
// are fixed. It is folded into the weights before they are rounded. `example` shows which batch
// norm follows which convolution: the model runs on it once, in eval mode.
// shows which follows which: the model is run on it once, in eval mode.

#include <string>
#include <vector>

#include "extras/quantization/fake_quantize.h"
#include "nn/module.h"

namespace rondo::nn {

/// Layers whose names match a pattern in `skip` are not changed. Shell patterns: "fc", "layer1.*".
struct QConfig {
  ObserverOptions activation = {};
  std::vector<std::string> skip = {};
};

/// Replaces each Linear by an Int8Linear that uses the range of each row. Returns the number of
/// replaced layers. Their weights take a quarter of the memory. Throws Error if the model has no
/// Linear.
std::int64_t quantize_dynamic(Module& model, const std::vector<std::string>& skip = {});

/// Puts an observer before each Linear and Conv2d, and moves each batch norm after a convolution
/// into it. Returns the number of layers. The results of the model do not change. Throws Error if
/// the model has no such layers, and the errors of the model on `example`.
std::int64_t prepare(Module& model, const Tensor& example,
                     const QConfig& config = {
                         .activation = {.range = ObserverOptions::Range::min_max}});
/// Like prepare, but from then on also rounds the inputs and weights of these layers; the gradient
/// passes straight through. In training mode, the range of an input follows the observed values.
std::int64_t prepare_qat(Module& model, const Tensor& example, const QConfig& config = {});
/// Replaces the layers that prepare or prepare_qat created by Int8Linear and Int8Conv2d, for
/// inference. Returns the number of layers. Throws Error naming a layer that has seen no input; in
/// that case nothing is replaced.
std::int64_t convert(Module& model);

/// For all FakeQuantize modules in the model: whether they observe, and whether they round.
void enable_observer(Module& model, bool on = true);
void enable_fake_quant(Module& model, bool on = true);
/// Puts all batch norms into eval mode, so that a short training keeps their statistics; train()
/// reverses it (torch.ao's freeze_bn_stats).
void freeze_bn_stats(Module& model);

}  // namespace rondo::nn
