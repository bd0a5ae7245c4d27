#pragma once
// cuDNN's graph interface, as far as rondo uses it, on the host: descriptors hold the attributes
// that were put into them, and a convolution is computed by plain loops from what they say (sizes,
// strides, paddings, names and pointers), a batch norm with what is fused into it likewise
// (host_cudnn_norm.h). An engine that declines comes first, so that rondo must
// go on to the next.

#include "tensor/cuda/cudnn.h"

namespace rondo::test {

const cuda::Cudnn& host_cudnn();

}  // namespace rondo::test
