#include "tensor/cuda/cublaslt.h"

#include <atomic>

#include "tensor/cuda/shared_library.h"

namespace rondo::cuda {
namespace {

std::atomic<const CublasLt*> cublaslt_replacement{nullptr};

CublasLt load_cublaslt() {
  static const SharedLibrary library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"});
  CublasLt table{};
  library.load("cublasLtCreate", table.create);
  library.load("cublasLtMatmulDescCreate", table.desc_create);
  library.load("cublasLtMatmulDescDestroy", table.desc_destroy);
  library.load("cublasLtMatmulDescSetAttribute", table.desc_set);
  library.load("cublasLtMatrixLayoutCreate", table.layout_create);
  library.load("cublasLtMatrixLayoutDestroy", table.layout_destroy);
  library.load("cublasLtMatrixLayoutSetAttribute", table.layout_set);
  library.load("cublasLtMatmulPreferenceCreate", table.preference_create);
  library.load("cublasLtMatmulPreferenceDestroy", table.preference_destroy);
  library.load("cublasLtMatmulPreferenceSetAttribute", table.preference_set);
  library.load("cublasLtMatmulAlgoGetHeuristic", table.get_heuristic);
  library.load("cublasLtMatmul", table.matmul);
  library.load("cublasLtGetVersion", table.version);
  return table;
}

}  // namespace

const CublasLt& cublaslt() {
  if (const CublasLt* table = cublaslt_replacement) return *table;
  static const CublasLt table = load_cublaslt();
  return table;
}

void set_cublaslt(const CublasLt* table) { cublaslt_replacement = table; }

}  // namespace rondo::cuda
