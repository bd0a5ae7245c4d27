#pragma once
// export_onnx: writes a model to a file that runs without rondo: in ONNX Runtime, TensorRT,
// OpenVINO or a browser.
//
//   io::export_onnx(net, randn({1, 3, 32, 32}), "resnet20.onnx");
//
//   io::export_onnx(net, std::tuple(image, mask), "net.onnx", {.input_names = {"image", "mask"}});
//
//   session = onnxruntime.InferenceSession("resnet20.onnx")
//   logits = session.run(["output"], {"input": images})[0]     # a batch of any size
//
// The file contains what forward records on the tape (nn/graph.h): autograd already knows every op
// of a model, so a model needs no second description. Forward runs twice, with batches of different
// sizes and values. What differs between the two tapes depends on the input. This keeps the batch
// size free, and detects apparent constants that depend on the input.

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "nn/model_call.h"
#include "nn/module.h"

namespace rondo::io {

struct OnnxOptions {
  /// Whether the batch size is free; false: it is that of the example.
  bool dynamic_batch = true;
  /// The batch dimension of the inputs: 1 for sequences (L, N, E).
  std::int64_t batch_dim = 0;
  /// Names for the tensors of the arguments and of the result, in order. Not given: those of struct
  /// members, else "input", or "input_0", "input_1", … if there are several; likewise "output".
  std::vector<std::string> input_names = {}, output_names = {};
  /// The inputs, by name, that have no batch dimension.
  std::vector<std::string> fixed_inputs = {};
  /// Additional information for people: {"mean", "0.5,0.5,0.5"}.
  std::map<std::string, std::string> metadata = {};
};

/// Writes what call.run computes in eval mode: opset 17, IR version 8. The parameters and buffers
/// are named as in state_dict(); those that forward does not use are left out. The training modes
/// and gradient settings of the model are restored.
///
/// The inputs are examples, of f32, f64, i64 (for models that begin with an embedding) or bool
/// (masks). Only their dtypes and shapes matter, and for i64 the range of the elements, which must
/// not all be 0. An i64 or bool input must reach an op as it is. Supported ops: all
/// that the layers of nn record in evaluation, except batch norms without running statistics. An
/// LSTM or a GRU is unrolled to the length of the example.
///
/// Throws Error for a wrong number of names or an unknown name, Error naming op and module for an
/// op that has no ONNX equivalent, for other dtypes, and for models whose use of the input is not
/// on the tape. (Overwriting elements of a recorded tensor under NoGradGuard is not detected;
/// forward must not do that.) Throws IoError naming the file if it cannot be written or would have
/// more than 2 GB, which ONNX does not allow; no file is left in that case. Throws Error if rondo
/// was built without protobuf.
void export_onnx(const nn::ModelCall& call, const std::string& path,
                 const OnnxOptions& options = {});
/// `example` is the argument of the model's forward, or a std::tuple of all its arguments.
template <std::derived_from<nn::Module> M, class Example>
void export_onnx(M& model, const Example& example, const std::string& path,
                 const OnnxOptions& options = {}) {
  if constexpr (requires { std::tuple_size<Example>::value; }) {
    export_onnx(
        std::apply([&](const auto&... args) { return nn::call_of(model, args...); }, example), path,
        options);
  } else {
    export_onnx(nn::call_of(model, example), path, options);
  }
}

}  // namespace rondo::io
