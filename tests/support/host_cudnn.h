#pragma once
// cuDNN's graph interface, as far as rondo uses it, on the host: descriptors hold the attributes
// that were put into them, and a convolution is computed by plain loops from what they say (sizes,
// strides, paddings, names and pointers), a batch norm with what is fused into it likewise
// (host_cudnn_norm.h). An engine that declines comes first, so that rondo must
// go on to the next.

#include "tensor/cuda/cudnn.h"

namespace rondo::test {

const cuda::Cudnn& host_cudnn();
/// From now on the plans of the engine that comes first (but for the one that declines) want so
/// much memory to work in.
void set_workspace_of_first_engine(std::int64_t bytes);

}  // namespace rondo::test
