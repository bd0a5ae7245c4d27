#pragma once
// A model's layers, and what it does with one input: shapes, parameters, multiply-adds.
//
//   std::cout << nn::summarize(net, {1, 3, 224, 224});
//   std::cout << nn::summarize(bert, tokens, nn::BertCall{.attention_mask = mask});

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "nn/model_call.h"
#include "nn/module.h"

namespace rondo::nn {

/// A module that has parameters itself, or has no child modules.
struct LayerSummary {
  std::string name, type;          // "layer1.0.conv1", "Conv2d"
  Dims input, output;              // of its last forward: the first tensors of each
  std::int64_t calls = 0;          // more than 1: the layer is used several times
  std::int64_t parameters = 0;     // elements; a shared weight counts in its first layer only
  std::int64_t multiply_adds = 0;  // of products (convolutions, attention, …), over all calls
};

struct ModelSummary {
  std::vector<LayerSummary> layers;  // in the order of their first forward
  std::int64_t parameters = 0;       // elements, including layers that were not called
  std::int64_t trained = 0;          // of these, the elements that require a gradient
  std::int64_t parameter_bytes = 0, buffer_bytes = 0;
  std::int64_t multiply_adds = 0;  // each is two floating-point operations: a product and a sum
  std::int64_t output_bytes = 0;   // of all layers together
};

/// Runs one forward in eval mode, without recording, and restores the modes. Throws what the
/// forward throws.
ModelSummary summarize(const ModelCall& call);
/// The inputs are the arguments of the model's forward.
template <std::derived_from<Module> M, class... Inputs>
requires(sizeof...(Inputs) > 0 && (!std::same_as<Inputs, Dims> && ...)) ModelSummary
    summarize(M& model, const Inputs&... inputs) {
  return summarize(call_of(model, inputs...));
}
/// The same with an input of zeros, f32, on the device of the model's parameters.
ModelSummary summarize(Module& model, const Dims& input);

/// Prints a table with one line for each layer, and the sums.
std::ostream& operator<<(std::ostream& out, const ModelSummary& summary);

}  // namespace rondo::nn
