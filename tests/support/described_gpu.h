#pragma once
// A GPU that is only described: tests/tensor/cuda/h100.json contains cuDNN's description of an H100
// (scripts/gpu_check.sh). Without a GPU, the real cuDNN makes plans for it.

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "support/golden.h"
#include "tensor/cuda/cudnn.h"
#include "tensor/cuda/runtime.h"

namespace rondo::test {

/// Empty, with the reason in `why`, without cuDNN or without a description.
inline std::optional<cuda::Descriptor> described_h100(std::string& why) {
  try {
    cuda::cudnn();
  } catch (const CudaError& missing) {
    why = missing.what();
    return {};
  }
  const std::string path = source_file(RONDO_GPU_PROPERTIES);
  std::ifstream file(path);
  if (!file) {
    why = path + " is not here";
    return {};
  }
  return cuda::device_properties(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

}  // namespace rondo::test
