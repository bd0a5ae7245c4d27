#pragma once
// export_onnx: writes a model to a file that runs without rondo: in ONNX Runtime, TensorRT,
// OpenVINO or a browser.
//
//   io::export_onnx(net, randn({1, 3, 32, 32}), "resnet20.onnx");
//
//   session = onnxruntime.InferenceSession("resnet20.onnx")
//   logits = session.run(["output"], {"input": images})[0]     # a batch of any size
//
// The file contains what forward records on the tape (nn/graph.h): autograd already knows every op
// of a model, so a model needs no second description. Forward runs twice, with batches of different
// sizes and values. What differs between the two tapes depends on the input. This keeps the batch
// size free, and detects apparent constants that depend on the input.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "nn/module.h"

namespace rondo::io {

struct OnnxOptions {
  /// Whether the batch size is free; false: it is that of the example.
  bool dynamic_batch = true;
  /// The batch dimension of the input: 1 for sequences (L, N, E).
  std::int64_t batch_dim = 0;
  /// Additional information for people: {"mean", "0.5,0.5,0.5"}.
  std::map<std::string, std::string> metadata = {};
};

/// Writes what model(example) computes in eval mode: opset 17, IR version 8. The input is named
/// "input", the output "output", and the parameters and buffers as in state_dict(); those that
/// forward does not use are left out. The training modes and gradient settings of the model are
/// restored.
///
/// `example` is f32 or f64, or i64 for models that begin with an embedding. Only its dtype and
/// shape matter, and for i64 the range of its elements, which must not all be 0. Supported ops: all
/// that the layers of nn record in evaluation, except batch norms without running statistics. An
/// LSTM or a GRU is unrolled to the length of the example.
///
/// Throws Error naming op and module for an op that has no ONNX equivalent, for other dtypes, and
/// for models whose use of the input is not on the tape. (Overwriting elements of a recorded tensor
/// under NoGradGuard is not detected; forward must not do that.) Throws IoError naming the file if
/// it cannot be written or would have more than 2 GB, which ONNX does not allow; no file is left in
/// that case. Throws Error if rondo was built without protobuf.
void export_onnx(nn::Module& model, const Tensor& example, const std::filesystem::path& path,
                 const OnnxOptions& options = {});

}  // namespace rondo::io
