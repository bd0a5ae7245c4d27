#pragma once
// SyncBatchNorm: batch normalisation by the statistics of all ranks' images together.
//
//   dist::convert_sync_batch_norm(model, *comm);
//   dist::DistributedDataParallel ddp(model, comm);
//
// Under plain DDP each rank normalises by its own part of the batch, which matters where that part
// is small (detection, segmentation; PyTorch's SyncBatchNorm). Each layer then costs two small
// all-reduces forward, two backward, and the fused kernel.

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

/// Makes every BatchNorm of the model, itself included, sum over the ranks while it trains; returns
/// how many there were; 0 in a world of one, where nothing changes. They talk over a group of their
/// own, beside DDP's buckets. Keys and values of the state dict stay as they are. Collective.
int convert_sync_batch_norm(nn::Module& model, Communicator& comm);

}  // namespace rondo::dist
