#pragma once
// IndexRange: checks an index in a kernel, and notes the first invalid one (index_check.h).

#include "tensor/cuda/index_check.h"
#include "tensor/cuda/simulation.h"

namespace rondo::cuda {

struct IndexRange {
  IndexNote* note;
  const char* op;
  std::int64_t dim, size;

  RONDO_HD bool contains(std::int64_t index) const {
    if (0 <= index && index < size) return true;
#if defined(__CUDA_ARCH__)
    if (atomicCAS(&note->raised, 0, 1) != 0) return false;  // only the first counts
#else
    if (note->raised != 0) return false;
#endif
    note->op = op;
    note->index = index;
    note->dim = dim;
    note->size = size;
#if defined(__CUDA_ARCH__)
    __threadfence_system();  // the host may read it while other kernels run
    *static_cast<volatile int*>(&note->raised) = 2;
#else
    note->raised = 2;
#endif
    return false;
  }
};

}  // namespace rondo::cuda
