#pragma once
// A GPU that is only described: tests/tensor/cuda/h200.json, the properties of an H200 from its
// data sheet and the CUDA programming guide's table for compute capability 9.0. The real cuDNN
// makes plans for it where there is none.

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tensor/cuda/cudnn.h"
#include "tensor/cuda/runtime.h"

namespace rondo::test {

/// Nothing, and why, where there is no cuDNN or no description.
inline std::optional<cuda::Descriptor> described_h200(std::string& why) {
  try {
    cuda::cudnn();
  } catch (const CudaError& missing) {
    why = missing.what();
    return {};
  }
  std::ifstream file(RONDO_GPU_PROPERTIES);
  if (!file) {
    why = RONDO_GPU_PROPERTIES " is not here";
    return {};
  }
  return cuda::device_properties(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

}  // namespace rondo::test
