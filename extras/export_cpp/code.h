#pragma once
// The two files of exported code: the weights, and the text. Private to export_cpp.

#include <filesystem>
#include <string>
#include <vector>

#include "extras/export_cpp/program.h"

namespace rondo::io::detail {

/// The weights as they are in the file: each begins at a multiple of 16 floats. Equal ones are
/// stored once.
struct Stored {
  std::vector<Int> offsets;
  std::vector<float> elements;
};

Stored stored(const Tensors& weights);

/// The file's text: each step is the call of a kernel (extras/export_cpp/kernels.h).
std::string code_of(const Program& program, const Stored& weights, const Tensor& input,
                    const Dims& output, const std::filesystem::path& path);

}  // namespace rondo::io::detail
