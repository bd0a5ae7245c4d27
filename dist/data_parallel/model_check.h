#pragma once
// Ensures that all ranks have the same model, before DDP and ParameterAverager start.

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

/// Compares names, dtypes, shapes and strides of all parameters and buffers with rank 0's. If they
/// differ, all ranks throw CommError with the same sentence, which names a rank and the first
/// parameter that differs.
void check_same_model(nn::Module& model, Communicator& comm);

/// Gives every rank rank 0's parameters and buffers.
void broadcast_model(nn::Module& model, Communicator& comm);

}  // namespace rondo::dist
