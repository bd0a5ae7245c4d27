#pragma once
// OnnxGraph: builds an ONNX graph. Values have names; a node takes values and produces others. A
// value that is neither produced by a node nor an input of the graph is an initialiser.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "extras/onnx/protobuf/onnx_program.h"
#include "onnx.pb.h"

namespace rondo::io::onnx {

inline constexpr const char* batch_name = "batch";

using Integers = std::vector<std::int64_t>;
using AttributeValue = std::variant<std::int64_t, double, const char*, Integers>;
using AttributeList = std::initializer_list<std::pair<const char*, AttributeValue>>;
using Names = std::vector<std::string>;

/// ONNX's number for a dtype. Throws DTypeError for the 16-bit floats, naming `what`.
TensorProto::DataType data_type_of(DType dtype, const std::string& what);

class OnnxGraph {
 public:
  /// Tensors in `known` keep their names. `limit`: the maximum number of bytes of initialisers;
  /// beyond it IoError, which begins with `file`.
  OnnxGraph(GraphProto& graph, const OnnxProgram& program, const nn::StateDict& known,
            std::string file, std::int64_t limit);

  /// `name`, or name_1, name_2 … if it is already used.
  std::string unique(const std::string& name);

  /// Adds initialisers; equal ones are added once.
  std::string initializer(const Tensor& value, const std::string& name);
  std::string integers(const Integers& values);
  std::string number(double value, DType dtype);
  /// The constant of the operand, with its sizes, in `dtype`.
  std::string constant(const Operand& operand, DType dtype, const std::string& name);
  /// A shape, as reshape and expand take it. Computed from the input's shape if it includes the
  /// batch.
  std::string shape(const Sizes& sizes);

  /// Adds a node; returns the names of its outputs.
  Names node(const std::string& op_type, const Names& inputs, AttributeList attributes,
             const std::string& name, std::size_t outputs = 1);
  /// Renames the output `value` of a node to `name`, wherever it is used; false if no node produces
  /// it.
  bool rename(const std::string& value, const std::string& name);

 private:
  std::string batch(std::int64_t times);

  GraphProto& graph_;
  std::string batch_input_;  // an input with a batch, and its batch dimension
  std::int64_t batch_dim_ = -1;
  std::vector<nn::NamedTensor> known_;  // initialisers, and candidates by name
  std::set<std::string> written_;       // names of `known_` that are in the graph
  std::map<std::string, int> used_;
  std::map<Integers, std::string> integers_;
  std::map<std::pair<std::uint64_t, DType>, std::string> numbers_;  // by their bits, for NaN
  std::map<std::int64_t, std::string> batches_;
  std::string file_;
  std::int64_t room_;  // bytes that can still be added
};

/// Declares the name, dtype and shape of an input or output.
void declare(ValueInfoProto& value, const std::string& name, DType dtype, const Sizes& sizes);

}  // namespace rondo::io::onnx
