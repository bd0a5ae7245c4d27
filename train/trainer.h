#pragma once
// Trainer: a model, an optimizer, two data sets; the rest is looked after. The same program runs on
// one CPU, on n ranks (`mpirun -np n`) and on n GPUs.
//
//   nn::Sequential net(…);
//   optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
//   train::Trainer trainer(net, sgd, {.epochs = 5, .batch_size = 128});
//   train::FitResult result = trainer.fit(train_set, test_set);
//
// What it puts together: dist::init, use_threads and use_device, a DistributedSampler and a
// DataLoader, DDP or averaging, and train::fit, which is where the loop is.

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
  /// Over all ranks; each takes its part. A step has FitOptions::accumulate_grad_batches of them.
  std::int64_t batch_size = 128;
  Uneven uneven = Uneven::pad;
  std::string device = "cpu";  // "cuda": each rank the GPU of its number on its machine
  /// The ranks; null: those that this program was started with (dist::init).
  std::shared_ptr<dist::Communicator> comm = nullptr;
  /// Makes the schedule for so many steps of the optimizer; none: the optimizer's rate stays.
  std::function<std::unique_ptr<optim::LRSchedule>(optim::Optimizer&, std::int64_t steps)>
      schedule = {};
  /// What becomes of a batch on its way to the model (data/transforms.h).
  data::Transform train_transform = {}, test_transform = {};
  int workers = 1;                 // threads that make batches
  std::uint64_t seed = 1;          // of the order of the samples
  int threads = 0;                 // that compute, on each rank; 0: its share of the cores
  std::ostream* out = &std::cout;  // where rank 0 reports; null: nowhere
  /// How ranks are kept together, checkpoints, metrics, callbacks; its `epochs`, `out` and `join`
  /// are not looked at.
  FitOptions fit = {};
};

class Trainer {
 public:
  /// Moves the model to the device. Both must outlive this. Collective. Throws DeviceError,
  /// CommError.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});

  /// Trains, and evaluates on `test` after each epoch. Throws as train::fit does, and Error for a
  /// batch size that the ranks do not divide. A run that is resumed must have the seed, batch size,
  /// shards, number of samples and Uneven that it began with. Collective.
  FitResult fit(std::shared_ptr<const data::Dataset> train,
                std::shared_ptr<const data::Dataset> test);
  /// The accuracy on a data set, and FitOptions::metrics, over all ranks. Collective.
  Evaluation evaluate(std::shared_ptr<const data::Dataset> test);

  dist::Communicator& communicator() { return *options_.comm; }

 private:
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
};

}  // namespace rondo::train
