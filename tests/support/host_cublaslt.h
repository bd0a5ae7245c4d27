#pragma once
// cuBLASLt's functions, as far as rondo uses them, computed on the host by plain loops: descriptors
// hold what was put into them, and a product is done by columns as the library's documentation
// says. So what rondo asks for (layouts, transpositions, batches, bias) is checked without a GPU.

#include "tensor/cuda/cublaslt.h"

namespace rondo::test {

const cuda::CublasLt& host_cublaslt();

}  // namespace rondo::test
