#pragma once
// A model as a program whose batch size is free: two traces of the model, merged. onnx_graph.h and
// onnx_ops.h write it.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "extras/onnx/onnx.h"
#include "nn/graph.h"

namespace rondo::io::onnx {

/// One size of a shape: a constant, or a multiple of the batch size.
struct Size {
  std::int64_t fixed = 0, per_batch = 0;
  bool is_fixed() const { return per_batch == 0; }
  bool operator==(const Size&) const = default;
};
using Sizes = std::vector<Size>;

/// An argument of an op.
struct Operand {
  enum class Kind { none, step, input, constant };
  Kind kind = Kind::none;
  std::size_t step = 0;  // the step whose output it is
  int output = 0;
  std::string input = {};  // the name of an input
  Tensor value = {};       // of a constant; of size 1 where `sizes` is a multiple of the batch
  Sizes sizes = {};
  DType dtype = f32;
};

struct OnnxStep {
  std::string name, op, scope;
  std::vector<Sizes> shapes;  // of the outputs
  std::vector<DType> dtypes;
  Attributes attributes;                                // other than tensors
  std::map<std::string, Operand, std::less<>> tensors;  // attributes that are tensors
  std::vector<Operand> arguments;
  Tensor value;  // of a parameter
};

struct Input {
  std::string name;
  Sizes sizes;
  DType dtype;
};

struct OnnxProgram {
  std::vector<OnnxStep> steps;
  std::vector<Input> inputs;
  std::vector<std::pair<std::string, Operand>> outputs;
};

/// Traces the model twice, calls use(program), and then compares the program with more traces
/// (nn::other_elements). Throws Error if two traces have different ops, if an apparent constant
/// depends on the input, if a size is not a multiple of the batch, or if an output is not
/// floating-point.
void with_program(const nn::ModelCall& call, const OnnxOptions& options,
                  const std::function<void(const OnnxProgram&)>& use);

/// "export_onnx: 'conv2d' in layer1.0.conv1".
std::string place_of(const std::string& op, const std::string& scope);

}  // namespace rondo::io::onnx
