#pragma once
// Collectives on the tape: they propagate gradients to the other ranks.

#include <memory>

#include "dist/collectives/communicator.h"

namespace rondo::dist {

/// Returns the sum of all ranks' x as a new tensor. Every rank's loss may depend on it, so the
/// gradient of x is the sum of all ranks' gradients. Collective in forward and in backward. As
/// torch.distributed.nn.functional.all_reduce.
Tensor all_reduce_sum(const Tensor& x, const std::shared_ptr<Communicator>& comm);

}  // namespace rondo::dist
