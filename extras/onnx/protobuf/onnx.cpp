// export_onnx (see extras/onnx/onnx.h): traces the model, converts it op by op, and saves it.
// onnx_program.h describes the traced program, and onnx_ops.h the conversion of each op.

#include "extras/onnx/onnx.h"

#include <limits>

#include "extras/onnx/protobuf/onnx_ops.h"
#include "io/atomic_file.h"
#include "tensor/error.h"
#include "tensor/version.h"

namespace rondo::io {
namespace {

constexpr std::int64_t ir_version = 8, opset = 17;  // 2022, first with LayerNormalization
constexpr std::int64_t most_bytes = std::numeric_limits<std::int32_t>::max();

onnx::ModelProto model_of(const onnx::OnnxProgram& program, const nn::StateDict& state,
                          const std::string& file, const OnnxOptions& options) {
  onnx::ModelProto proto;
  proto.set_ir_version(ir_version);
  proto.set_producer_name("rondo");
  proto.set_producer_version(
      concat(RONDO_VERSION_MAJOR, ".", RONDO_VERSION_MINOR, ".", RONDO_VERSION_PATCH));
  proto.add_opset_import()->set_version(opset);
  for (const auto& [key, value] : options.metadata) {
    onnx::StringStringEntryProto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  onnx::GraphProto& graph = *proto.mutable_graph();
  graph.set_name("rondo");
  for (const onnx::Input& input : program.inputs)
    onnx::declare(*graph.add_input(), input.name, input.dtype, input.sizes);
  for (const auto& [name, output] : program.outputs)
    onnx::declare(*graph.add_output(), name, output.dtype, output.sizes);
  onnx::OnnxGraph writer(graph, program, state, file, most_bytes);
  onnx::write_program(program, writer);
  return proto;
}

}  // namespace

void export_onnx(const nn::ModelCall& call, const std::string& path, const OnnxOptions& options) {
  AtomicFile file(path);  // fails before the work if the file cannot be written
  onnx::ModelProto proto;
  onnx::with_program(call, options, [&](const onnx::OnnxProgram& program) {
    proto = model_of(program, call.model.state_dict(), path, options);
  });
  require<IoError>(
      static_cast<std::int64_t>(proto.ByteSizeLong()) <= most_bytes, path,
      ": would have more than 2 GB, the maximum for an ONNX file (it is one protocol buffer)");
  const std::string bytes = proto.SerializeAsString();
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace rondo::io
