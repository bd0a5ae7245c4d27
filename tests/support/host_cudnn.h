#pragma once
// The part of cuDNN's graph interface that rondo uses, on the host. Descriptors store their
// attributes. A convolution is computed by plain loops from them (sizes, strides, paddings, names
// and pointers), and so are graphs of several operations (host_cudnn_graph.h). The first engine
// refuses, so that rondo must try the next one.

#include "tensor/cuda/cudnn.h"

namespace rondo::test {

const cuda::Cudnn& host_cudnn();
/// Sets the workspace size of the plans of the first engine (after the one that refuses).
void set_workspace_of_first_engine(std::int64_t bytes);

}  // namespace rondo::test
