#pragma once
// From a trained model to one that computes in bytes, as torch.ao.quantization does it.
//
//   nn::quantize_dynamic(model);               // Linear layers, nothing else to do
//
//   nn::prepare(model, example);               // static: convolutions as well
//   for (…) model(images);                     // calibrate: a few hundred inputs, no labels
//   nn::convert(model);
//
//   nn::prepare_qat(model, example);           // train on with the rounding in it
//   …
//   nn::convert(model);
//
// Layers are replaced where they stand (Module::set_submodule), whatever type their owner declared.
// To load a quantised state dict, bring a model of the same kind into the same form first.
//
// A batch norm behind a convolution is a factor and an offset for each channel once its statistics
// are fixed: it is folded into the weights, which are then rounded as they will be used. `example`
// shows which follows which: the model is run on it once, in eval mode.

#include <string>
#include <vector>

#include "extras/quantization/fake_quantize.h"
#include "nn/module.h"

namespace rondo::nn {

/// What `skip` lists stays as it is: names of layers, shell patterns ("fc", "layer1.*").
struct QConfig {
  ObserverOptions activation = {};
  std::vector<std::string> skip = {};
};

/// Replaces each Linear by an Int8Linear that finds each row's range as it comes; the number of
/// them is returned. Their weights take a quarter of the memory. Throws Error where there is none.
std::int64_t quantize_dynamic(Module& model, const std::vector<std::string>& skip = {});

/// Puts an observer before each Linear and Conv2d, and each batch norm behind a convolution into
/// it; the number of layers is returned. The model computes what it did. Throws Error where there
/// is none of them, and what the model throws on `example`.
std::int64_t prepare(Module& model, const Tensor& example,
                     const QConfig& config = {
                         .activation = {.range = ObserverOptions::Range::min_max}});
/// The same, and rounds the inputs and weights of those layers from then on, the gradient going
/// straight through; an input's range follows what comes in training mode.
std::int64_t prepare_qat(Module& model, const Tensor& example, const QConfig& config = {});
/// Replaces what prepare or prepare_qat made by Int8Linear and Int8Conv2d, for inference; the
/// number of them is returned. Throws Error, naming the layer, where one has seen no input, and
/// then nothing has been replaced.
std::int64_t convert(Module& model);

/// Of all FakeQuantize modules in the model: whether they go on looking, whether they round.
void enable_observer(Module& model, bool on = true);
void enable_fake_quant(Module& model, bool on = true);
/// Puts all batch norms into eval mode, so that a short training leaves their statistics alone;
/// train() undoes it (torch.ao's freeze_bn_stats).
void freeze_bn_stats(Module& model);

}  // namespace rondo::nn
