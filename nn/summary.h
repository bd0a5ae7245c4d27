#pragma once
// What a model consists of, and what it does with one input: layers, shapes, parameters, work.
//
//   std::cout << nn::summarize(net, {1, 3, 224, 224});

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

/// A module that has parameters of its own, or no modules of its own.
struct LayerSummary {
  std::string name, type;          // "layer1.0.conv1", "Conv2d"
  Dims input, output;              // of its last forward
  std::int64_t calls = 0;          // more than 1: it is used several times
  std::int64_t parameters = 0;     // elements; those of a shared weight are its first layer's
  std::int64_t multiply_adds = 0;  // of products (convolutions, attention, …), over all calls
};

struct ModelSummary {
  std::vector<LayerSummary> layers;  // in the order of their first forward
  std::int64_t parameters = 0;       // elements, of layers that were not called as well
  std::int64_t trained = 0;          // of them: those that require a gradient
  std::int64_t parameter_bytes = 0, buffer_bytes = 0;
  std::int64_t multiply_adds = 0;  // a floating-point operation each for the product and the sum
  std::int64_t output_bytes = 0;   // of all layers together
};

/// One forward in eval mode, without recording; the modes are put back. Throws what it throws.
ModelSummary summarize(Module& model, const Tensor& input);
/// The same of zeros, f32, where the model's parameters are.
ModelSummary summarize(Module& model, const Dims& input);

/// A table, a line a layer, and the sums.
std::ostream& operator<<(std::ostream& out, const ModelSummary& summary);

}  // namespace rondo::nn
