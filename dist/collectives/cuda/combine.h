#pragma once
// The reductions of dist/collectives/reduce.h on a GPU.

#include "dist/transports/transport.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

/// Queues in `stream`: into[i] = (into[i] op from[i]) / divisor.
void combine_on_device(const cuda::Stream& stream, void* into, const void* from, std::int64_t count,
                       DType dtype, ReduceOp op, int divisor);

}  // namespace rondo::dist
