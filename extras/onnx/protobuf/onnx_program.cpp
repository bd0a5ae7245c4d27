// Merges two traces of a model into one program (see onnx_program.h).
//
// The first trace uses 2 rows of the example, the second 3 rows of random numbers; three more, of
// large numbers, zeros and NaN, only check that the program is the same. A size that is s
// in both is the constant s; a size that is 2 k and 3 k is k times the batch. A constant that is
// equal in both is a constant. One that repeats along the batch (such as the initial zeros of an
// LSTM) is one row of it, expanded. Any other depends on the input in a way that is not on the
// tape, and is refused.

#include "extras/onnx/protobuf/onnx_program.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"

namespace rondo::io::onnx {
namespace {

/// The inputs for the two traces.
struct Inputs {
  std::vector<std::string> names;
  Tensors first, second;
  std::int64_t first_batch = 0, second_batch = 0;  // equal: the batch is fixed
};

/// `rows` rows of x along dim, repeated cyclically if x has fewer.
Tensor repeated_to(const Tensor& x, std::int64_t dim, std::int64_t rows) {
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < rows; ++i) index.push_back(i % x.size(dim));
  return index_select(x, dim, tensor(index).to(x.device()));
}

void add_input(Inputs& inputs, const std::string& name, const Tensor& example,
               const OnnxOptions& options, int kind) {
  require<DTypeError>(example.dtype() == f32 || example.dtype() == f64 || example.dtype() == i64 ||
                          example.dtype() == boolean,
                      "export_onnx: an example of ", example.dtype(),
                      "; inputs may be f32, f64, i64 and bool");
  require<ShapeError>(example.numel() > 0, "export_onnx: the example ", example.shape(),
                      " has no elements");
  const Tensor x = example.detach().contiguous();
  inputs.names.push_back(name);
  if (!options.dynamic_batch || std::ranges::count(options.fixed_inputs, name) > 0) {
    inputs.first.push_back(x);
    inputs.second.push_back(nn::other_elements(x, kind, "export_onnx"));
    return;
  }
  require<ShapeError>(x.dim() > 0, "export_onnx: an example without dimensions has no batch");
  const std::int64_t dim = wrap_dim(options.batch_dim, x.dim(), "export_onnx: batch_dim");
  const Tensor second = nn::other_elements(
      repeated_to(x, dim, std::max<std::int64_t>(x.size(dim), 3)), kind, "export_onnx");
  inputs.first.push_back(repeated_to(x, dim, 2));
  inputs.second.push_back(repeated_to(second, dim, 3));
  inputs.first_batch = 2;
  inputs.second_batch = 3;
}

Inputs inputs_of(const nn::ModelCall& call, const OnnxOptions& options, int kind) {
  Inputs inputs;
  for (const auto& [name, example] : call.inputs) add_input(inputs, name, example, options, kind);
  for (const std::string& name : options.fixed_inputs)
    require(std::ranges::count(inputs.names, name) > 0, "export_onnx: fixed_inputs has \"", name,
            "\", but no input is called so");
  return inputs;
}

void require_count(const std::vector<std::string>& names, std::size_t tensors, const char* option) {
  require(names.empty() || names.size() == tensors, "export_onnx: ", option, " has ", names.size(),
          " names, but there are ", tensors, " tensors");
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(Device::cpu()).contiguous(), y = b.to(Device::cpu()).contiguous();
  return std::memcmp(x.data_ptr(), y.data_ptr(), static_cast<std::size_t>(x.nbytes())) == 0;
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.storage_offset() == b.storage_offset() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

/// Whether x is the unchanged input, which is contiguous.
bool shows(const Tensor& x, const Tensor& input) {
  return x.storage() == input.storage() && x.storage_offset() == input.storage_offset() &&
         x.dtype() == input.dtype() && x.shape() == input.shape() && x.is_contiguous();
}

/// Merges the two traces of each step.
class Joiner {
 public:
  Joiner(const Inputs& inputs, const nn::Trace& first, const nn::Trace& second)
      : inputs_(inputs), first_(first), second_(second) {}

  OnnxProgram operator()() {
    require(first_.nodes.size() == second_.nodes.size(), "export_onnx: forward records ",
            first_.nodes.size(), " ops for one input and ", second_.nodes.size(),
            " for another; a file can hold only one graph");
    for (std::size_t i = 0; i < first_.nodes.size(); ++i)
      program_.steps.push_back(join(first_.nodes[i], second_.nodes[i]));
    for (std::size_t i = 0; i < inputs_.names.size(); ++i) {
      place_ = concat("export_onnx: the input \"", inputs_.names[i], '"');
      program_.inputs.push_back({inputs_.names[i],
                                 sizes(inputs_.first[i].shape(), inputs_.second[i].shape()),
                                 inputs_.first[i].dtype()});
    }
    require(first_.outputs.size() == second_.outputs.size(), "export_onnx: forward returns ",
            first_.outputs.size(), " tensors for one input and ", second_.outputs.size(),
            " for another");
    for (std::size_t i = 0; i < first_.outputs.size(); ++i) {
      const auto& [name, output] = first_.outputs[i];
      place_ = concat("export_onnx: the result \"", name, '"');
      require(output.node >= 0, place_, " does not depend on anything that gradients flow through");
      program_.outputs.emplace_back(name, argument(output, second_.outputs[i].second));
    }
    return std::move(program_);
  }

 private:
  OnnxStep join(const nn::GraphNode& a, const nn::GraphNode& b) {
    place_ =
        a.op == "parameter" ? concat("export_onnx: parameter ", a.name) : place_of(a.op, a.scope);
    OnnxStep step{.name = a.name,
                  .op = a.op,
                  .scope = a.scope,
                  .shapes = {},
                  .dtypes = a.dtypes,
                  .attributes = {},
                  .tensors = {},
                  .arguments = {},
                  .value = a.value};
    const bool same = a.op == b.op && a.dtypes == b.dtypes && a.shapes.size() == b.shapes.size() &&
                      a.arguments.size() == b.arguments.size() &&
                      a.attributes.size() == b.attributes.size();
    require(same, place_, " is a different op for another input; a file can hold only one graph");
    for (std::size_t i = 0; i < a.shapes.size(); ++i) {
      require<ShapeError>(numel_of(a.shapes[i]) > 0, place_, " has no elements");
      step.shapes.push_back(sizes(a.shapes[i], b.shapes[i]));
    }
    for (const DType dtype : a.dtypes)
      require<DTypeError>(dtype == f32 || dtype == f64, place_, " is of ", dtype,
                          "; f32 and f64 can be exported");
    for (std::size_t i = 0; i < a.arguments.size(); ++i)
      step.arguments.push_back(argument(a.arguments[i], b.arguments[i]));
    for (const auto& [name, value] : a.attributes) attribute(step, name, value, b);
    return step;
  }

  void attribute(OnnxStep& step, const std::string& name, const Attribute& value,
                 const nn::GraphNode& other) {
    const auto found = other.attributes.find(name);
    require(found != other.attributes.end() && found->second.index() == value.index(), place_,
            " has a different ", name, " for another input");
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      step.tensors[name] = constant(*tensor, std::get<Tensor>(found->second));
      return;
    }
    require(
        nn::same_attribute(value, found->second), place_, ": its ", name,
        " depends on the batch, which a file cannot express; OnnxOptions::dynamic_batch = false "
        "fixes the batch");
    step.attributes[name] = value;
  }

  Operand argument(const nn::GraphArgument& a, const nn::GraphArgument& b) {
    require(a.node == b.node && a.output == b.output, place_,
            " takes a different argument for another input; a file can hold only one graph");
    if (a.node < 0) return constant(a.constant, b.constant);
    const OnnxStep& from = program_.steps[static_cast<std::size_t>(a.node)];
    const auto output = static_cast<std::size_t>(a.output);
    return {.kind = Operand::Kind::step,
            .step = static_cast<std::size_t>(a.node),
            .output = a.output,
            .sizes = from.shapes[output],
            .dtype = from.dtypes[output]};
  }

  Operand constant(const Tensor& a, const Tensor& b) {
    require(a.defined() == b.defined(), place_, " has a different argument for another input");
    if (!a.defined()) return {};
    Operand operand{.sizes = sizes(a.shape(), b.shape()), .dtype = a.dtype()};
    for (std::size_t i = 0; i < inputs_.names.size(); ++i) {
      if (!shows(a, inputs_.first[i]) || !shows(b, inputs_.second[i])) continue;
      operand.kind = Operand::Kind::input;
      operand.input = inputs_.names[i];
      return operand;
    }
    operand.kind = Operand::Kind::constant;
    operand.value = a;
    for (std::size_t d = 0; d < operand.sizes.size(); ++d)
      if (!operand.sizes[d].is_fixed())
        operand.value = narrow(operand.value, static_cast<std::int64_t>(d), 0, 1);
    const bool is_constant =
        same_view(a, b) ||
        (a.dtype() == b.dtype() && same_bits(operand.value.broadcast_view(a.shape()), a) &&
         same_bits(operand.value.broadcast_view(b.shape()), b));
    require(is_constant, place_, " gets a tensor of shape ", a.shape(),
            " that differs between inputs but does not come from recorded ops; a file would store "
            "its elements as constants");
    return operand;
  }

  Sizes sizes(const Dims& a, const Dims& b) const {
    require(a.size() == b.size(), place_, ": the shape ", a, " is ", b, " for another input");
    Sizes joined;
    for (std::int64_t d = 0; d < a.size(); ++d) {
      if (a[d] == b[d]) {
        joined.push_back({.fixed = a[d]});
        continue;
      }
      const std::int64_t times = b[d] - a[d];  // the batch sizes differ by one
      require<ShapeError>(inputs_.first_batch > 0 && times * inputs_.first_batch == a[d], place_,
                          ": a shape is ", a, " for one input and ", b,
                          " for another; sizes must be numbers or multiples of the batch "
                          "(OnnxOptions::dynamic_batch = false fixes it)");
      joined.push_back({.per_batch = times});
    }
    return joined;
  }

  const Inputs& inputs_;
  const nn::Trace &first_, &second_;
  OnnxProgram program_;
  std::string place_ = "export_onnx: the input";
};

}  // namespace

std::string place_of(const std::string& op, const std::string& scope) {
  return concat("export_onnx: '", op, "' in ", scope.empty() ? "the model" : scope);
}

/// ONNX wants each input and output to have a name of its own.
void require_names(const OnnxProgram& program) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    require(!name.empty(), "export_onnx: the name of an input or output is empty");
    require(names.insert(name).second, "export_onnx: two inputs or outputs are called \"", name,
            '"');
  };
  for (const auto& input : program.inputs) add(input.name);
  for (const auto& [name, output] : program.outputs) add(name);
}

void with_program(const nn::ModelCall& given, const OnnxOptions& options,
                  const std::function<void(const OnnxProgram&)>& use) {
  const NoGradGuard no_grad;  // traces record nevertheless
  nn::ModelCall call = given;
  require_count(options.input_names, call.inputs.size(), "input_names");
  for (std::size_t i = 0; i < options.input_names.size(); ++i)
    call.inputs[i].name = options.input_names[i];
  const Inputs inputs = inputs_of(call, options, 0);
  nn::Trace first = nn::trace(call, inputs.first);
  require_count(options.output_names, first.outputs.size(), "output_names");
  for (std::size_t i = 0; i < options.output_names.size(); ++i)
    first.outputs[i].first = options.output_names[i];
  const nn::Trace second = *nn::trace_again(call, inputs.second, 0, first);
  const OnnxProgram program = Joiner(inputs, first, second)();
  require_names(program);
  use(program);
  for (int kind = 1; kind < nn::kinds_of_other_elements; ++kind) {  // the same program, or refused
    Inputs others = inputs;
    others.second = inputs_of(call, options, kind).second;
    if (const auto other = nn::trace_again(call, others.second, kind, first))
      Joiner(others, first, *other)();
  }
}

}  // namespace rondo::io::onnx
