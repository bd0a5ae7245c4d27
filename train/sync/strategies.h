#pragma once
// The strategies that only fit makes. Private to train/sync.

#include "dist/data_parallel/averager.h"
#include "train/gradient_sync.h"

namespace rondo::train {

std::unique_ptr<GradientSync> zero_sync(nn::Module& model, optim::Optimizer& optimizer,
                                        std::shared_ptr<dist::Communicator> comm,
                                        const dist::DdpOptions& options);
std::unique_ptr<GradientSync> reproducible_sync(nn::AnyModule& model,
                                                std::shared_ptr<dist::Communicator> comm,
                                                int shards);
std::unique_ptr<GradientSync> averaging_sync(nn::Module& model,
                                             const std::shared_ptr<dist::Communicator>& comm,
                                             const dist::AveragerOptions& options);

}  // namespace rondo::train
