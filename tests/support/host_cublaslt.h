#pragma once
// The functions of cuBLASLt that rondo uses, computed on the host by plain loops. Descriptors store
// what is set in them, and a product uses column-major order, as the library's documentation says.
// So rondo's calls (layouts, transpositions, batches, bias) are tested without a GPU.

#include "tensor/cuda/cublaslt.h"

namespace rondo::test {

const cuda::CublasLt& host_cublaslt();
/// How many products have also summed an operand.
int products_with_sums();

}  // namespace rondo::test
