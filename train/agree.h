#pragma once
// The ranks of train::fit compare their options before they train.

#include "dist/collectives/communicator.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "train/fit.h"

namespace rondo::train {

/// Throws CommError on all ranks, naming the first setting that differs between ranks. Otherwise a
/// model trained with two learning rates, or in two folders, would look correct. DDP, hooks,
/// averaging and shards check their own options.
void agree_on_options(const optim::Optimizer& optimizer, const optim::LRSchedule& schedule,
                      const FitData& data, dist::Communicator& comm, const FitOptions& options);

}  // namespace rondo::train
