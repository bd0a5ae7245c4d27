#pragma once
// export_cpp: writes a model as one C++17 file, which needs no library, and a file of weights.
//
//   io::export_cpp(net, randn({1, 3, 32, 32}), "resnet20.cpp");  // and resnet20.weights
//
//   #include "resnet20.cpp"
//   resnet20::Model model("resnet20.weights");
//   model.run(image, logits);  // const float*, float*
//
// The code is a list of calls of loops with constant sizes (extras/export_cpp/kernels.h has their
// text), one for each op that forward records on the tape (nn/graph.h). A batch norm is part of the
// convolution or product before it, and an element-wise op is part of the loop before it. All
// activations share one piece of memory, planned when the code is written.

#include <concepts>
#include <string>

#include "nn/model_call.h"
#include "nn/module.h"

namespace rondo::io {

/// Writes what call.run computes in eval mode, for inputs of exactly the example's shape: `path`
/// and, next to it, the same name with the extension .weights. The training modes and gradient
/// settings of the model are restored. The namespace of the code is the stem of `path`, with '_'
/// for characters that a C++ name cannot have.
///
/// Forward takes one tensor, of f32 or, for models that begin with an embedding, of i64 (not all
/// 0), and returns one. It runs several times, with different elements: a constant that differs
/// depends on the input in a way that is not on the tape, and is refused.
///
/// The file of weights has all weights as little-endian f32, folded and in the order in which the
/// loops read them; it is not a file for rondo. The code knows its size and its hash.
///
/// Throws Error naming op and module for an op that has no C++ form, DTypeError for a dtype other
/// than f32, ShapeError for an example without elements, and IoError naming the file if it cannot
/// be written. No new file is left in these cases.
void export_cpp(const nn::ModelCall& call, const std::string& path);
template <std::derived_from<nn::Module> M>
void export_cpp(M& model, const Tensor& example, const std::string& path) {
  export_cpp(nn::call_of(model, example), path);
}

}  // namespace rondo::io
