#pragma once
// use_device: which device a rank computes on, and who carries its tensors between the ranks.
//
//   auto comm = dist::init();
//   Device device = dist::use_device(*comm, "cuda");   // rank i of a machine gets its GPU i
//   model.to(device);
//   dist::DistributedDataParallel ddp(model, comm);
//
// One process drives one GPU. Its collectives go through NCCL unless the communicator's all_reduce
// says mpi: then through pinned memory of the host, over the transport that the communicator has.

#include <string>

#include "dist/collectives/communicator.h"
#include "tensor/device.h"

namespace rondo::dist {

/// `name` is "cpu", "cuda" (the GPU of this rank's number among the ranks of its machine) or
/// "cuda:2" (this one, for a world of one). Throws, on all ranks, DeviceError where there is no
/// GPU, or no such one, and CommError where more ranks of a machine than it has GPUs are to talk
/// over NCCL, naming the ranks, or NCCL is missing or too old. Collective.
Device use_device(Communicator& comm, const std::string& name);

/// Gives a group's communicator this rank's GPU, as use_device has given it to that of all ranks.
/// Collective over the group.
void share_gpu(Communicator& group, Device device);

}  // namespace rondo::dist
