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

/// The table; loads the library at the first call. Throws CudaError when there is none.
const CublasLt& cublaslt();
/// Puts another table in its place, for tests; null: the real one again.
void set_cublaslt(const CublasLt* table);

}  // namespace rondo::cuda
