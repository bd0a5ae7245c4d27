#pragma once
// The same model on all ranks: what DDP and ParameterAverager make sure of before they start.

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

/// Compares names, dtypes, shapes and strides of all parameters and buffers with rank 0's. Throws
/// CommError on all ranks, the same sentence, naming a rank and the first parameter that differ.
void check_same_model(nn::Module& model, Communicator& comm);

/// Gives every rank rank 0's parameters and buffers.
void broadcast_model(nn::Module& model, Communicator& comm);

}  // namespace rondo::dist
