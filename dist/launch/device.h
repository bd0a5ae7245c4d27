#pragma once
// use_device: which device a rank computes on, and how its tensors are sent between the ranks.
//
//   auto comm = dist::init();
//   Device device = dist::use_device(*comm, "cuda");   // rank i of a machine gets its GPU i
//   model.to(device);
//   dist::DistributedDataParallel ddp(model, comm);
//
// One process drives one GPU. Its collectives use NCCL, unless CommunicatorOptions::all_reduce is
// `mpi`: then they use pinned memory of the host and the communicator's transport.

#include <string>

#include "dist/collectives/communicator.h"
#include "tensor/device.h"

namespace rondo::dist {

/// `name` is "cpu", "cuda" (the GPU whose number is this rank's number among the ranks of its
/// machine) or "cuda:2" (this GPU; only in a world of one). Throws on all ranks: DeviceError if
/// the GPU does not exist; CommError if a machine has more ranks than GPUs and they should use NCCL
/// (the error names the ranks), or if NCCL is missing or too old. Collective.
Device use_device(Communicator& comm, const std::string& name);

/// Gives a group's communicator the GPU that use_device gave to the communicator of all ranks.
/// Collective over the group.
void share_gpu(Communicator& group, Device device);

}  // namespace rondo::dist
