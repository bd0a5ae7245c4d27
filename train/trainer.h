#pragma once
// Trainer: trains a model, given an optimizer and two data sets. The same program runs on one CPU,
// on n ranks (`mpirun -np n`) and on n GPUs.
//
//   nn::Sequential net(…);
//   optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
//   train::Trainer trainer(net, sgd, {.epochs = 5, .batch_size = 128});
//   train::FitResult result = trainer.fit(train_set, test_set);
//
// The task is a classification unless FitOptions::criterion is another loss.
//
// It combines dist::init, use_threads and use_device, a DistributedSampler and a DataLoader, DDP or
// averaging, and train::fit, which contains the loop.

#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "data/dataset.h"
#include "data/loader.h"
#include "dist/collectives/communicator.h"
#include "nn/module.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "train/fit.h"
#include "train/share_of_data.h"

namespace rondo::train {

struct TrainerOptions {
  std::int64_t epochs = 1;
  /// The total over all ranks; each takes its part. A step uses FitOptions::accumulate_grad_batches
  /// batches.
  std::int64_t batch_size = 128;
  Uneven uneven = Uneven::pad;
  std::string device = "cpu";  // "cuda": each rank uses the GPU with its local rank's number
  /// The ranks; null: those that the program was started with (dist::init).
  std::shared_ptr<dist::Communicator> comm = nullptr;
  /// Creates the schedule, given the number of optimizer steps; empty: the learning rate is
  /// constant.
  std::function<std::unique_ptr<optim::LRSchedule>(optim::Optimizer&, std::int64_t steps)>
      schedule = {};
  /// Applied to each batch before it reaches the model (data/transforms.h).
  data::Transform train_transform = {}, test_transform = {};
  int workers = 1;                 // threads that load batches
  std::uint64_t seed = 1;          // of the order of the samples
  int threads = 0;                 // compute threads of each rank; 0: its share of the cores
  std::ostream* out = &std::cout;  // where rank 0 prints its progress; null: nowhere
  /// Synchronisation of the ranks, checkpoints, metrics, callbacks. Its `epochs`, `out` and `join`
  /// are ignored.
  FitOptions fit = {};
};

class Trainer {
 public:
  /// Moves the model to the device. Model and optimizer must outlive the Trainer. Collective.
  /// Throws DeviceError, CommError.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});
  /// It calls the model with one tensor and takes one as its result.
  template <class M>
  requires(!M::takes_one_tensor) Trainer(M&, optim::Optimizer&, TrainerOptions = {})
  = delete;

  /// Trains, and evaluates on `test`, if it is not null, after each epoch. Throws as train::fit
  /// does, and Error for a batch size that is not divisible by the number of ranks. A resumed run
  /// must have the same seed, batch size, shards, number of samples and Uneven as before.
  /// Collective.
  FitResult fit(std::shared_ptr<const data::Dataset> train,
                std::shared_ptr<const data::Dataset> test = nullptr);
  /// The loss, the accuracy and FitOptions::metrics on a data set, computed by all ranks.
  /// Collective.
  Evaluation evaluate(std::shared_ptr<const data::Dataset> test);

  dist::Communicator& communicator() { return *options_.comm; }

 private:
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
};

}  // namespace rondo::train
