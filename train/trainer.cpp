#include "train/trainer.h"

#include "dist/launch/device.h"
#include "dist/launch/init.h"
#include "dist/launch/threads.h"
#include "tensor/error.h"
#include "train/evaluate.h"

namespace rondo::train {
namespace {

/// Leaves the learning rate alone: a callback may set it. In a checkpoint it is a LambdaLR, as
/// older ones have it.
class NoSchedule final : public optim::LRSchedule {
 public:
  explicit NoSchedule(optim::Optimizer& optimizer) : LRSchedule(optimizer) {}
  const char* type() const override { return "LambdaLR"; }

 private:
  double next_lr(std::size_t, double lr) override { return lr; }
  std::map<std::string, std::vector<double>> settings() const override { return {}; }
  void load_settings(const std::map<std::string, std::vector<double>>&) override {}
};

}  // namespace

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : model_(model), optimizer_(optimizer), options_(std::move(options)) {
  if (options_.comm == nullptr) options_.comm = dist::init();
  dist::use_threads(*options_.comm, options_.threads);
  model_.to(dist::use_device(*options_.comm, options_.device));
  options_.fit.epochs = options_.epochs;
  options_.fit.out = options_.out;
  options_.fit.join = options_.uneven == Uneven::join;
}

FitResult Trainer::fit(std::shared_ptr<const data::Dataset> train,
                       std::shared_ptr<const data::Dataset> test) {
  dist::Communicator& comm = *options_.comm;
  require(train != nullptr, "Trainer: train must not be null");
  require(options_.batch_size > 0 && options_.batch_size % comm.world_size() == 0,
          "Trainer: a batch of ", options_.batch_size, " is not divisible by the ",
          comm.world_size(), " ranks; batch_size must be a positive multiple of their number");
  // A resumed run must see the same samples in the same order.
  FitOptions fit = options_.fit;
  fit.config.emplace("seed", static_cast<std::int64_t>(options_.seed));
  fit.config.emplace("shards", fit.shards);
  fit.config.emplace("train_samples", train->size());
  if (options_.uneven != Uneven::pad)  // older checkpoints do not have it
    fit.config.emplace("uneven", options_.uneven == Uneven::drop ? "drop" : "join");
  ShareOfData share = share_of_data(std::move(train), {.batch_size = options_.batch_size,
                                                       .rank = comm.rank(),
                                                       .world_size = comm.world_size(),
                                                       .shards = options_.fit.shards,
                                                       .seed = options_.seed,
                                                       .workers = options_.workers,
                                                       .transform = options_.train_transform,
                                                       .uneven = options_.uneven});
  const std::int64_t steps =
      options_.epochs * steps_of(share.most_batches, fit.accumulate_grad_batches);
  auto schedule = options_.schedule ? options_.schedule(optimizer_, steps)
                                    : std::make_unique<NoSchedule>(optimizer_);
  return train::fit(model_, optimizer_, *schedule,
                    {.train = share.loader,
                     .train_images = share.images,
                     .batch_size = options_.batch_size,
                     .test = test,
                     .test_transform = options_.test_transform},
                    options_.comm, fit);
}

Evaluation Trainer::evaluate(std::shared_ptr<const data::Dataset> test) {
  require(test != nullptr, "Trainer: test must not be null");
  return train::evaluate(model_, test, options_.test_transform, *options_.comm,
                         {.workers = options_.workers,
                          .criterion = options_.fit.criterion,
                          .count = options_.fit.count,
                          .metrics = options_.fit.metrics});
}

}  // namespace rondo::train
