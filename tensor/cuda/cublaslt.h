#pragma once
// cuBLASLt as a table of the functions that rondo uses. Private to tensor/cuda.

#include <cublasLt.h>

namespace rondo::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtGetVersion) version;
};

/// The table. The first call loads the library. Throws CudaError if the library is missing.
const CublasLt& cublaslt();
/// Replaces the table, for tests; null restores the real one.
void set_cublaslt(const CublasLt* table);

}  // namespace rondo::cuda
