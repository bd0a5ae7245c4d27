#include "train/fit.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "autograd/ops/loss.h"
#include "dist/averager.h"
#include "dist/ddp.h"
#include "tensor/creation.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_state.h"
#include "train/stop.h"

namespace rondo::train {
namespace {

using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(nn::Module& model, optim::Optimizer& optimizer, optim::LRSchedule& schedule, FitData data,
      std::shared_ptr<dist::Communicator> comm, const FitOptions& options)
      : model_(model),
        optimizer_(optimizer),
        schedule_(schedule),
        data_(std::move(data)),
        comm_(std::move(comm)),
        options_(options),
        state_{model,
               optimizer,
               schedule,
               *comm_,
               options.model_name,
               options.config,
               options.sync == Sync::average} {}

  FitResult operator()() {
    // First the wrappers, which give every rank rank 0's values; then what a checkpoint puts over
    // them.
    if (options_.sync == Sync::ddp) {
      ddp_.emplace(model_, comm_);
    } else {
      averager_.emplace(model_, comm_, dist::AveragerOptions{.every = options_.average_every});
    }
    if (options_.resume) restore();
    if (!options_.checkpoint_dir.empty() && comm_->rank() == 0) {
      metrics_ = MetricsFile(options_.checkpoint_dir / "metrics.jsonl", position_.epoch);
    }
    StopSignal stop;
    if (position_.epoch >= options_.epochs) test();  // a finished run was resumed
    while (position_.epoch < options_.epochs && !result_.stopped) train_epoch();
    result_.epochs = position_.epoch;
    if (trained_seconds_ > 0) result_.img_per_s = trained_images_ / trained_seconds_;
    return result_;
  }

 private:
  void train_epoch() {
    std::int64_t epoch = position_.epoch, batches = data_.train.size();
    std::int64_t images = data_.train_images - position_.step * data_.batch_size, done = 0;
    ProgressBar bar(reports() ? options_.out : nullptr,
                    fmt::format("epoch {}/{}", epoch + 1, options_.epochs), images, "img");
    data_.train.set_epoch(static_cast<std::uint64_t>(epoch), position_.step);
    if (position_.step == 0) loss_sum_ = 0;
    model_.train();
    auto start = Clock::now();
    for (auto& batch : data_.train) {
      double loss = train_step(batch);
      loss_sum_ += loss;
      ++position_.step;
      ++position_.global_step;
      done += batch.size() * comm_->world_size();
      bar.update(std::min(done, images), fmt::format("loss {:.4f}", loss));
      if (must_stop()) {
        result_.stopped = true;
        save();
        return;
      }
      bool last = position_.step == batches;
      if (!last && options_.checkpoint_every > 0 &&
          position_.global_step % options_.checkpoint_every == 0)
        save();
    }
    if (averager_) averager_->finish();
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    trained_seconds_ += seconds;
    trained_images_ += static_cast<double>(done);
    end_epoch(seconds, static_cast<double>(done) / seconds);
  }

  /// One batch; returns the mean of the ranks' losses (under averaging: this rank's).
  double train_step(const data::Batch& batch) {
    Tensor output = model_(batch.input);
    Tensor loss = options_.criterion ? options_.criterion(output, batch.target)
                                     : cross_entropy(output, batch.target);
    optimizer_.zero_grad();
    if (ddp_) {
      ddp_->set_flag(loss);
      loss.backward();
      ddp_->check_flag();
      optimizer_.step();
      schedule_.step();
      return ddp_->mean_loss();
    }
    auto value = loss.item<double>();
    require(std::isfinite(value), "the loss is ", value, " in epoch ", position_.epoch + 1,
            ", batch ", position_.step + 1, "; a lower learning rate may help");
    loss.backward();
    optimizer_.step();
    schedule_.step();
    averager_->step();
    return value;
  }

  void end_epoch(double seconds, double img_per_s) {
    result_.final_loss = mean_over_ranks(loss_sum_) / static_cast<double>(data_.train.size());
    ++position_.epoch;
    position_.step = 0;
    test();
    result_.best_test_accuracy = std::max(result_.best_test_accuracy, result_.test.accuracy());
    metrics_.write({{"epoch", static_cast<double>(position_.epoch)},
                    {"step", static_cast<double>(position_.global_step)},
                    {"train_loss", result_.final_loss},
                    {"test_loss", result_.test.loss},
                    {"test_accuracy", result_.test.accuracy()},
                    {"lr", schedule_.last_lr()},
                    {"img_per_s", img_per_s},
                    {"seconds", seconds}});
    if (reports()) {
      *options_.out
          << fmt::format(
                 "epoch {}/{}: loss {:.4f}, test accuracy {:.2f} % ({} of {}), {:.0f} img/s, {}",
                 position_.epoch, options_.epochs, result_.final_loss,
                 100 * result_.test.accuracy(), result_.test.correct, result_.test.total, img_per_s,
                 format_duration(seconds))
          << std::endl;
    }
    save();
  }

  void test() {
    if (ddp_) ddp_->broadcast_buffers();
    result_.test = evaluate(model_, data_.test, data_.test_transform, *comm_);
  }

  /// Whether any rank was asked to stop: all must agree on the step after which they do.
  bool must_stop() {
    if (comm_->world_size() == 1) return StopSignal::requested();
    // Ranks that average seldom must not be made to meet at every step.
    if (averager_ && position_.global_step % options_.average_every != 0) return false;
    Tensor flag = full({1}, StopSignal::requested() ? 1 : 0, {.dtype = i32});
    comm_->all_reduce(flag, dist::ReduceOp::max);
    return flag.item<std::int32_t>() != 0;
  }

  double mean_over_ranks(double value) {
    if (ddp_) return value;  // already is
    Tensor sum = full({1}, value, {.dtype = f64});
    comm_->all_reduce(sum, dist::ReduceOp::avg);
    return sum.item<double>();
  }

  void save() {
    if (options_.checkpoint_dir.empty()) return;
    if (ddp_) ddp_->broadcast_buffers();
    io::Metadata metadata = {
        {"loss_sum", loss_sum_},
        {"best_test_accuracy", result_.best_test_accuracy},
        {"final_loss", result_.final_loss},
        {"steps_since_average", std::int64_t{averager_ ? averager_->steps_since_average() : 0}}};
    state_.save(options_.checkpoint_dir, position_, metadata);
    result_.checkpoint = checkpoint_path(options_.checkpoint_dir);
  }

  void restore() {
    io::Checkpoint checkpoint = state_.restore(options_.checkpoint_dir);
    position_ = checkpoint.position;
    auto number = [&](const char* name) {
      auto found = checkpoint.metadata.find(name);
      const double* value =
          found == checkpoint.metadata.end() ? nullptr : std::get_if<double>(&found->second);
      return value != nullptr ? *value : 0;
    };
    loss_sum_ = number("loss_sum");
    result_.best_test_accuracy = number("best_test_accuracy");
    result_.final_loss = number("final_loss");
    if (averager_) {
      auto since = checkpoint.metadata.find("steps_since_average");
      if (since != checkpoint.metadata.end())
        averager_->set_steps_since_average(static_cast<int>(std::get<std::int64_t>(since->second)));
    }
    result_.checkpoint = checkpoint_path(options_.checkpoint_dir);
    if (reports()) {
      *options_.out << fmt::format("going on from {}: epoch {}, batch {}",
                                   result_.checkpoint.string(), position_.epoch + 1,
                                   position_.step + 1);
      if (checkpoint.world_size != comm_->world_size())
        *options_.out << fmt::format(" ({} ranks then, {} now: the last digits will differ)",
                                     checkpoint.world_size, comm_->world_size());
      *options_.out << std::endl;
    }
  }

  bool reports() const { return options_.out != nullptr && comm_->rank() == 0; }

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  optim::LRSchedule& schedule_;
  FitData data_;
  std::shared_ptr<dist::Communicator> comm_;
  const FitOptions& options_;
  RunState state_;
  std::optional<dist::DistributedDataParallel> ddp_;
  std::optional<dist::ParameterAverager> averager_;
  MetricsFile metrics_;

  io::Checkpoint::Position position_;
  FitResult result_;
  double loss_sum_ = 0, trained_images_ = 0, trained_seconds_ = 0;
};

}  // namespace

FitResult fit(nn::Module& model, optim::Optimizer& optimizer, optim::LRSchedule& schedule,
              FitData data, std::shared_ptr<dist::Communicator> comm, const FitOptions& options) {
  require(options.epochs > 0, "fit: epochs is ", options.epochs, ", but must be positive");
  require(options.average_every > 0, "fit: average_every is ", options.average_every,
          ", but must be positive");
  require(!options.resume || !options.checkpoint_dir.empty(),
          "fit: resuming needs a checkpoint directory");
  return Run(model, optimizer, schedule, std::move(data), std::move(comm), options)();
}

}  // namespace rondo::train
