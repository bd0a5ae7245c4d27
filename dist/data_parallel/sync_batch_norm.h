#pragma once
// SyncBatchNorm: batch normalisation with statistics over all ranks' images.
//
//   dist::convert_sync_batch_norm(model, comm);
//   dist::DistributedDataParallel ddp(model, comm);
//
// Under plain DDP each rank normalises with the statistics of its own part of the batch. This
// matters if that part is small (detection, segmentation; PyTorch's SyncBatchNorm). Each layer then
// needs two small all-reduces in forward and two in backward, and cannot use the fused kernel.

#include <memory>

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

/// Makes every BatchNorm of the model, including the model itself, sum over the ranks in training
/// mode; returns their number. Returns 0 in a world of one, where nothing changes. Without NCCL
/// they use a separate group, so that they do not wait for DDP's buckets. Over NCCL they use `comm`
/// itself, since all collectives of a GPU run one after another anyway: call dist::use_device
/// first. Then all ranks must run the same layers in the same order. Keys and values of the state
/// dict do not change. Collective.
int convert_sync_batch_norm(nn::Module& model, std::shared_ptr<Communicator> comm);

}  // namespace rondo::dist
