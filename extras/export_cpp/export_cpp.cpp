// export_cpp (see extras/export_cpp/export_cpp.h) in three passes: `lowered` makes steps of the
// traced ops (lowering.h), `planned` gives each buffer a place in memory (plan.h), and `code_of`
// writes the steps as calls (code.h).

#include "extras/export_cpp/export_cpp.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "autograd/grad_mode.h"
#include "autograd/ops/shape.h"
#include "extras/export_cpp/code.h"
#include "extras/export_cpp/lowering.h"
#include "io/atomic_file.h"
#include "io/hash.h"
#include "nn/graph.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::io {
namespace {

using detail::GraphNode;
using detail::Index;
using detail::place_of;

/// Throws if a constant of the first trace is another one in the second.
void require_constants(const nn::Trace& first, const nn::Trace& second, const Tensor& a,
                       const Tensor& b) {
  require(first.nodes.size() == second.nodes.size(), "export_cpp: forward records ",
          first.nodes.size(), " ops for one input and ", second.nodes.size(),
          " for another; a file can hold only one graph");
  const nn::GraphArgument &one_end = first.outputs[0].second, &other_end = second.outputs[0].second;
  require(second.outputs.size() == 1 && one_end.node == other_end.node &&
              one_end.output == other_end.output,
          "export_cpp: forward returns another tensor for another input");
  const auto equal = [&](const Tensor& x, const Tensor& y) {
    if (x.defined() != y.defined()) return false;
    if (!x.defined() || (x.storage() == a.storage() && y.storage() == b.storage())) return true;
    if (x.dtype() != y.dtype() || x.shape() != y.shape()) return false;
    const Tensor p = row_major(x), q = row_major(y);
    return std::memcmp(p.data_ptr(), q.data_ptr(), static_cast<Index>(p.nbytes())) == 0;
  };
  for (Index i = 0; i < first.nodes.size(); ++i) {
    const GraphNode &one = first.nodes[i], &two = second.nodes[i];
    bool same = one.op == two.op && one.arguments.size() == two.arguments.size() &&
                one.shapes == two.shapes;
    for (Index k = 0; same && k < one.arguments.size(); ++k)
      same = one.arguments[k].node == two.arguments[k].node &&
             one.arguments[k].output == two.arguments[k].output &&
             equal(one.arguments[k].constant, two.arguments[k].constant);
    for (const auto& [name, value] : one.attributes) {
      const auto other = two.attributes.find(name);
      same = same && other != two.attributes.end() && nn::same_attribute(value, other->second);
      if (!same) break;
      if (const auto* tensor = std::get_if<Tensor>(&value))
        same = equal(*tensor, std::get<Tensor>(other->second));
    }
    require(
        same, place_of(one),
        " has a different argument for another input, which is not the result of a recorded op; "
        "a file would store it as a constant");
  }
}

}  // namespace

void export_cpp(const nn::ModelCall& call, const std::string& path) {
  require(call.inputs.size() == 1, "export_cpp: forward has ", call.inputs.size(),
          " tensors as arguments; a C++ file has one input");
  const Tensor input = call.inputs[0].tensor.detach().clone().contiguous();
  require<DTypeError>(input.dtype() == f32 || input.dtype() == i64, "export_cpp: an example of ",
                      input.dtype(), "; the input may be f32 or i64");
  require<ShapeError>(input.numel() > 0, "export_cpp: the example ", input.shape(),
                      " has no elements");
  std::filesystem::path weights_path = path;
  weights_path.replace_extension(".weights");
  require<IoError>(path != weights_path, path,
                   ": the file of weights would have the same name; use the extension .cpp");
  require(std::ranges::all_of(
              std::filesystem::path(path).filename().string(),
              [](unsigned char c) { return c >= ' ' && c != '"' && c != '\\' && c != 127; }),
          "export_cpp: the file's name becomes a part of the code, so it may not have quotes, "
          "backslashes or control characters: ",
          printable(path));
  AtomicFile code(path), weights(weights_path);  // fail before the work

  const NoGradGuard no_grad;  // traces record nevertheless
  const nn::Trace trace = nn::trace(call, {input});
  require(trace.outputs.size() == 1, "export_cpp: forward returns ", trace.outputs.size(),
          " tensors; a C++ file has one output");
  const nn::GraphArgument& output = trace.outputs[0].second;
  require(output.node >= 0,
          "export_cpp: the result does not depend on anything that gradients flow through");
  const auto compare = [&](int kind) {
    const Tensor other = nn::other_elements(input, kind, "export_cpp");
    if (const auto second = nn::trace_again(call, {other}, kind, trace))
      require_constants(trace, *second, input, other);
  };
  compare(0);
  const detail::Program program = detail::lowered(trace, input);
  for (int kind = 1; kind < nn::kinds_of_other_elements; ++kind) compare(kind);

  const detail::Stored elements = detail::stored(program.weights);
  const Dims shape =
      trace.nodes[static_cast<Index>(output.node)].shapes[static_cast<Index>(output.output)];
  const std::string text = detail::code_of(program, elements, input, shape, path);
  weights.write(elements.elements.data(), elements.elements.size() * sizeof(float));
  code.write(text.data(), text.size());
  weights.commit();
  code.commit();
}

}  // namespace rondo::io
