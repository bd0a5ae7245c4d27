#pragma once
// export_onnx: a model as a file that others run, without rondo: ONNX Runtime, TensorRT, OpenVINO,
// a browser.
//
//   io::export_onnx(net, randn({1, 3, 32, 32}), "resnet20.onnx");
//
//   session = onnxruntime.InferenceSession("resnet20.onnx")
//   logits = session.run(["output"], {"input": images})[0]     # a batch of any size
//
// What is written is what forward records on the tape (nn/graph.h): autograd already knows every op
// of a model, so a model needs no second description. Forward runs twice, on batches of different
// sizes and values. What is different in the two tapes is what follows from the input; that way the
// batch stays free, and a constant that is none is found out instead of being baked in.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "nn/module.h"

namespace rondo::io {

struct OnnxOptions {
  /// Whether the batch may have any size; false: it has the example's.
  bool dynamic_batch = true;
  /// Which of the input's dimensions that is: 1 for sequences (L, N, E).
  std::int64_t batch_dim = 0;
  /// Beside the graph, for people: {"mean", "0.5,0.5,0.5"}.
  std::map<std::string, std::string> metadata = {};
};

/// Writes what model(example) computes in eval mode: opset 17, IR version 8. The input is called
/// "input", the output "output", the parameters and buffers as in state_dict(); those that forward
/// does not use are left out. The model's modes and its gradients' are put back.
///
/// `example` is f32 or f64, or i64 for models that begin with an embedding; what counts is its
/// dtype and shape, and for i64 the range of its elements, which must not all be 0. What ops are
/// covered: all that nn's layers record in evaluation, but for batch norms without running
/// statistics. An LSTM or a GRU is unrolled to the example's length.
///
/// Throws Error naming op and module for what has no form in ONNX, for other dtypes, and for models
/// that do with the input what the tape does not show (elements of a recorded tensor overwritten
/// under NoGradGuard are not noticed: forward must not do that). Throws IoError naming the file
/// where it cannot be written or would have more than 2 GB, which no ONNX file may have. Then no
/// file is left. Throws Error when rondo was built without protobuf.
void export_onnx(nn::Module& model, const Tensor& example, const std::filesystem::path& path,
                 const OnnxOptions& options = {});

}  // namespace rondo::io
