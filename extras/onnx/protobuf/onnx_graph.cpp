// OnnxGraph (see onnx_graph.h).

#include "extras/onnx/protobuf/onnx_graph.h"

#include <algorithm>
#include <bit>

#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::io::onnx {
namespace {

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.storage_offset() == b.storage_offset() &&
         a.dtype() == b.dtype() && a.shape() == b.shape() && a.strides() == b.strides();
}

void set(AttributeProto& attribute, const AttributeValue& value) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    attribute.set_type(AttributeProto::INT);
    attribute.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&value)) {
    attribute.set_type(AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(*f));
  } else if (const auto* s = std::get_if<const char*>(&value)) {
    attribute.set_type(AttributeProto::STRING);
    attribute.set_s(*s);
  } else {
    attribute.set_type(AttributeProto::INTS);
    for (const std::int64_t i : std::get<Integers>(value)) attribute.add_ints(i);
  }
}

}  // namespace

TensorProto::DataType data_type_of(DType dtype, const std::string& what) {
  switch (dtype) {
    case DType::f32:
      return TensorProto::FLOAT;
    case DType::f64:
      return TensorProto::DOUBLE;
    case DType::i64:
      return TensorProto::INT64;
    case DType::i32:
      return TensorProto::INT32;
    case DType::u8:
      return TensorProto::UINT8;
    case DType::i8:
      return TensorProto::INT8;
    case DType::boolean:
      return TensorProto::BOOL;
    default:
      throw DTypeError(
          concat("export_onnx: ", what, " is of ", dtype, "; f32 and f64 can be exported"));
  }
}

OnnxGraph::OnnxGraph(GraphProto& graph, const OnnxProgram& program, const nn::StateDict& known,
                     std::string file, std::int64_t limit)
    : graph_(graph), file_(std::move(file)), room_(limit) {
  for (const Input& input : program.inputs) unique(input.name);
  for (const auto& [name, output] : program.outputs) unique(name);
  for (const auto& [name, tensor] : known) known_.push_back({unique(name), tensor.detach()});
  for (const Input& input : program.inputs) {
    const auto batch = std::ranges::find_if_not(input.sizes, &Size::is_fixed);
    if (batch == input.sizes.end()) continue;
    batch_input_ = input.name;
    batch_dim_ = batch - input.sizes.begin();
  }
}

std::string OnnxGraph::unique(const std::string& name) {
  const int before = used_[name]++;
  return before == 0 ? name : unique(concat(name, "_", before));
}

std::string OnnxGraph::initializer(const Tensor& value, const std::string& name) {
  auto known = std::ranges::find_if(
      known_, [&](const nn::NamedTensor& k) { return same_elements(k.tensor, value); });
  if (known == known_.end()) known = known_.insert(known, {unique(name), value});
  if (!written_.insert(known->name).second) return known->name;
  room_ -= value.nbytes();
  require<IoError>(
      room_ >= 0, file_,
      ": would have more than 2 GB, the maximum for an ONNX file (it is one protocol buffer)");
  const Tensor dense = value.detach().to(Device::cpu()).contiguous();
  TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(known->name);
  tensor.set_data_type(data_type_of(value.dtype(), known->name));
  for (const std::int64_t size : value.shape()) tensor.add_dims(size);
  tensor.set_raw_data(dense.data_ptr(), static_cast<std::size_t>(dense.nbytes()));
  return known->name;
}

std::string OnnxGraph::integers(const Integers& values) {
  std::string& name = integers_[values];
  if (name.empty()) {
    std::string text = "integers";
    for (const std::int64_t v : values) text += concat("_", v);
    name = initializer(tensor(values), text);
  }
  return name;
}

std::string OnnxGraph::number(double value, DType dtype) {
  std::string& name = numbers_[{std::bit_cast<std::uint64_t>(value), dtype}];
  if (name.empty()) name = initializer(scalar(value, {.dtype = dtype}), concat("number_", value));
  return name;
}

std::string OnnxGraph::constant(const Operand& operand, DType dtype, const std::string& name) {
  const std::string row = initializer(operand.value.to(dtype), name);
  const bool is_fixed = std::ranges::all_of(operand.sizes, &Size::is_fixed);
  return is_fixed ? row : node("Expand", {row, shape(operand.sizes)}, {}, name)[0];
}

/// The batch size times `times`, as a list of one number.
std::string OnnxGraph::batch(std::int64_t times) {
  std::string& name = batches_[times];
  if (name.empty() && times == 1)
    name = node("Shape", {batch_input_}, {{"start", batch_dim_}, {"end", batch_dim_ + 1}},
                batch_name)[0];
  else if (name.empty())
    name = node("Mul", {batch(1), integers({times})}, {}, concat(batch_name, "_times_", times))[0];
  return name;
}

std::string OnnxGraph::shape(const Sizes& sizes) {
  Integers fixed;
  Names pieces;
  const auto end_of_fixed = [&] {
    if (!fixed.empty()) pieces.push_back(integers(fixed));
    fixed.clear();
  };
  for (const Size& size : sizes) {
    if (size.is_fixed()) {
      fixed.push_back(size.fixed);
      continue;
    }
    end_of_fixed();
    pieces.push_back(batch(size.per_batch));
  }
  if (pieces.empty()) return integers(fixed);
  end_of_fixed();
  return pieces.size() == 1 ? pieces[0]
                            : node("Concat", pieces, {{"axis", std::int64_t{0}}}, "shape")[0];
}

Names OnnxGraph::node(const std::string& op_type, const Names& inputs, AttributeList attributes,
                      const std::string& name, std::size_t outputs) {
  NodeProto& node = *graph_.add_node();
  node.set_op_type(op_type);
  node.set_name(unique(name));
  for (const std::string& input : inputs) node.add_input(input);
  for (const auto& [key, value] : attributes) {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    set(attribute, value);
  }
  Names made;
  for (std::size_t i = 0; i < outputs; ++i) {
    made.push_back(i == 0 ? node.name() : unique(concat(node.name(), ".", i)));
    node.add_output(made.back());
  }
  return made;
}

bool OnnxGraph::rename(const std::string& value, const std::string& name) {
  const auto rename_in = [&](auto& list) {
    const auto found = std::find(list.begin(), list.end(), value);
    if (found != list.end()) *found = name;
    return found != list.end();
  };
  bool is_made = false;
  for (NodeProto& node : *graph_.mutable_node()) is_made |= rename_in(*node.mutable_output());
  if (!is_made) return false;
  for (NodeProto& node : *graph_.mutable_node())
    while (rename_in(*node.mutable_input())) continue;
  return true;
}

void declare(ValueInfoProto& value, const std::string& name, DType dtype, const Sizes& sizes) {
  value.set_name(name);
  TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(data_type_of(dtype, name));
  TensorShapeProto& shape = *type.mutable_shape();
  for (const Size& size : sizes) {
    auto& dim = *shape.add_dim();
    if (size.is_fixed())
      dim.set_dim_value(size.fixed);
    else
      dim.set_dim_param(size.per_batch == 1 ? batch_name : concat(size.per_batch, "*", batch_name));
  }
}

}  // namespace rondo::io::onnx
