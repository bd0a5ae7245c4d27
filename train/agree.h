#pragma once
// What train::fit does before it trains: each rank checks the options, and the ranks compare them.

#include "dist/collectives/communicator.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "train/fit.h"

namespace rondo::train {

/// Throws Error or DeviceError for options that are invalid, alone or together, or that do not fit
/// the data, the model and the optimizer.
void check_options(const FitOptions& options, const FitData& data, nn::Module& model,
                   const optim::Optimizer& optimizer);

/// Throws CommError on all ranks, naming the first setting that differs between ranks. Otherwise a
/// model trained with two learning rates, or in two folders, would look correct. DDP, hooks,
/// averaging and shards check their own options.
void agree_on_options(const optim::Optimizer& optimizer, const optim::LRSchedule& schedule,
                      const FitData& data, dist::Communicator& comm, const FitOptions& options);

}  // namespace rondo::train
