#pragma once
// The program that exported code runs (export_cpp.h): a list of calls of kernels, and where their
// operands are. Private to export_cpp.

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "nn/graph.h"
#include "tensor/error.h"

namespace rondo::io::detail {

using Int = std::int64_t;
using Index = std::size_t;
using nn::GraphNode;

/// Where a value is when the program runs.
struct Place {
  enum class Kind { absent, input, weights, buffer };
  Kind kind = Kind::absent;
  Index index = 0;    // of the weights or of the buffer
  bool sole = false;  // one op reads it
};

/// A call of a kernel: kernel<sizes, functions>(operands, output, numbers).
struct Step {
  std::string kernel, sizes;
  std::vector<Place> operands = {};
  Index output = 0;  // a buffer
  std::string numbers = {};
  std::string op = {};                 // its function of two elements, a and b
  std::vector<std::string> then = {};  // statements about each element v of the result
  bool takes_then = true;
  bool in_place = false;  // it may overwrite an operand of the same size
  Dims result = {};
  std::string scope = {};
};

struct Program {
  std::vector<Step> steps;
  std::vector<Tensor> weights;
  std::vector<Int> buffers;  // sizes
  Place output;
};

/// "export_cpp: 'conv2d' in layer1.0", as errors begin.
inline std::string place_of(const GraphNode& node) {
  return concat("export_cpp: '", node.op, "' in ", node.scope.empty() ? "the model" : node.scope);
}

/// The texts, with commas.
template <class... Parts>
std::string list(const Parts&... parts) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + concat(parts)), ...);
  return text;
}

/// The shortest text of C++ with this value: 0.5.
template <class T>
std::string digits_of(T value) {
  std::array<char, 32> text{};
  std::string digits(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

/// The value as a float of C++: 0.5f.
inline std::string number(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  return digits_of(static_cast<float>(value)) + "f";
}

}  // namespace rondo::io::detail
