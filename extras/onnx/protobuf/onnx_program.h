#pragma once
// A model as a program with one free number, the batch: two traces of it made one. What is written
// of it is in onnx_graph.h and onnx_ops.h.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "extras/onnx/onnx.h"
#include "nn/graph.h"

namespace rondo::io::onnx {

/// One size of a shape: a number, or so many times the batch.
struct Size {
  std::int64_t fixed = 0, per_batch = 0;
  bool is_fixed() const { return per_batch == 0; }
  bool operator==(const Size&) const = default;
};
using Sizes = std::vector<Size>;

/// What an op is given.
struct Operand {
  enum class Kind { none, step, input, constant };
  Kind kind = Kind::none;
  std::size_t step = 0;  // whose output it is
  int output = 0;
  Tensor value = {};  // of a constant; of size 1 where `sizes` is a multiple of the batch
  Sizes sizes = {};
  DType dtype = f32;
};

struct Step {
  std::string name, op, scope;
  std::vector<Sizes> shapes;  // of its outputs
  std::vector<DType> dtypes;
  Attributes attributes;                                // other than tensors
  std::map<std::string, Operand, std::less<>> tensors;  // those
  std::vector<Operand> arguments;
  Tensor value;  // of a parameter
};

struct Program {
  std::vector<Step> steps;
  Operand output;
  Sizes input;
  DType input_dtype = f32;
};

/// Traces the model twice. Throws Error where the two have not the same ops, where a constant is
/// none, where a size is no multiple of the batch, and where the output is no float.
Program make_program(nn::Module& model, const Tensor& example, const OnnxOptions& options);

/// "export_onnx: 'conv2d' in layer1.0.conv1".
std::string place_of(const std::string& op, const std::string& scope);

}  // namespace rondo::io::onnx
