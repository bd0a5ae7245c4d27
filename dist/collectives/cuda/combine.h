#pragma once
// The arithmetic of dist/collectives/reduce.h on a GPU.

#include "dist/transports/transport.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

/// into[i] = (into[i] op from[i]) / divisor, as the next work of `stream`.
void combine_on_device(const cuda::Stream& stream, void* into, const void* from, std::int64_t count,
                       DType dtype, ReduceOp op, int divisor);

}  // namespace rondo::dist
