#include "train/fit.h"

#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <optional>

#include "autograd/autocast.h"
#include "data/prefetch.h"
#include "dist/averager.h"
#include "dist/ddp.h"
#include "tensor/creation.h"
#include "train/profiled_steps.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/run_state.h"
#include "train/step.h"
#include "train/stop.h"

namespace rondo::train {
namespace {

using Clock = std::chrono::steady_clock;

/// A position is a number of batches, and with batches of another size another place.
io::Metadata with_batch_size(io::Metadata config, std::int64_t batch_size) {
  config.emplace("batch_size", batch_size);
  return config;
}

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
        device_(device_of(model)),
        folder_({options.checkpoint_dir, options.csv, options.tensorboard}, *comm_, options.out),
        state_{model,
               optimizer,
               schedule,
               *comm_,
               options.model_name,
               with_batch_size(options.config, data_.batch_size),
               options.sync == Sync::average,
               options.keep_checkpoints,
               {},
               options.async_checkpoints} {
    require(options_.keep_checkpoints >= 1, "fit: keep_checkpoints is ", options_.keep_checkpoints,
            ", but must be at least 1");
  }

  FitResult operator()() {
    // First the wrappers, which give every rank rank 0's values; then what a checkpoint puts over
    // them.
    if (options_.shards > 0) {
      auto* model = dynamic_cast<nn::AnyModule*>(&model_);
      require(model != nullptr,
              "fit: reproducible training makes copies of the model, which must be an "
              "nn::AnyModule");
      reproducible_.emplace(*model, comm_, dist::ReproducibleOptions{.shards = options_.shards});
    } else if (options_.sync == Sync::ddp) {
      ddp_.emplace(model_, comm_, options_.ddp);
      if (!options_.comm_hook.empty()) {
        ddp_->register_comm_hook(dist::make_comm_hook(options_.comm_hook));
        state_.state_per_rank = !ddp_->comm_hook()->state().empty();
      }
    } else {
      averager_.emplace(model_, comm_, options_.averaging);
      // Asked over the ranks' own communicator, they would wait for the average under way.
      if (options_.averaging.async) questions_ = comm_->duplicate();
    }
    if (!options_.trace.empty()) trace_.emplace(*comm_, options_.trace);
    if (options_.amp == f16) scaler_.emplace(device_);
    require(
        !scaler_ || !ddp_ || !state_.state_per_rank, "fit: ", options_.comm_hook,
        " remembers what it did not send, which f16's infinite gradients would spoil; use bf16, "
        "or a comm hook without a memory");
    step_.emplace(
        TrainStepOptions{.model = model_,
                         .optimizer = optimizer_,
                         .ddp = ddp_ ? &*ddp_ : nullptr,
                         .reproducible = reproducible_ ? &*reproducible_ : nullptr,
                         .criterion = options_.criterion,
                         .amp = options_.amp,
                         .scaler = scaler_ ? &*scaler_ : nullptr,
                         .graph = options_.graph,
                         .rank = comm_->rank(),
                         .trace = trace(),
                         .overlap = comm_->world_size() > 1 ? &result_.overlap : nullptr});
    folder_.lock(options_.resume);
    if (options_.resume) {
      restore();
      folder_.open(true, position_, tested_);
    }
    StopSignal stop;
    if (!tested_) {
      test_epoch();
    } else if (is_complete()) {
      test();  // a finished run was resumed
    }
    result_.steps.first = position_.global_step + 1;
    const std::int64_t batches = data_.train.size();
    profiled_ =
        ProfiledSteps(comm_->rank() == 0 ? options_.profile_steps : 0,
                      (options_.epochs - position_.epoch) * batches - position_.step, batches);
    while (!is_complete() && result_.stopped_by == 0) train_epoch();
    state_.finish();
    if (trace_) trace_->write(options_.trace);
    result_.profile = profiled_.result();
    if (result_.profile && !options_.profile.empty())
      result_.profile->write_chrome_trace(options_.profile, comm_->rank());
    result_.epochs = position_.epoch;
    if (trained_seconds_ > 0) result_.img_per_s = trained_images_ / trained_seconds_;
    return result_;
  }

 private:
  void train_epoch() {
    auto start = Clock::now();
    std::int64_t images = train_batches();
    if (result_.stopped_by != 0) return;
    take_losses(true);
    if (averager_) averager_->finish();
    epoch_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    epoch_img_per_s_ = static_cast<double>(images) / epoch_seconds_;
    trained_seconds_ += epoch_seconds_;
    trained_images_ += static_cast<double>(images);
    result_.final_loss = mean_over_ranks(loss_sum_) / static_cast<double>(data_.train.size());
    ++position_.epoch;
    position_.step = 0;
    tested_ = false;
    save();  // whoever is killed in a long evaluation has the epoch all the same
    test_epoch();
  }

  /// The rest of the epoch, or until somebody is asked to stop; returns how many images that were.
  std::int64_t train_batches() {
    std::int64_t batches = data_.train.size();
    std::int64_t images = data_.train_images - position_.step * data_.batch_size, done = 0;
    ProgressBar bar(reports() ? options_.out : nullptr,
                    fmt::format("epoch {}/{}", position_.epoch + 1, options_.epochs), images,
                    "img");
    data_.train.set_epoch(static_cast<std::uint64_t>(position_.epoch), position_.step);
    if (position_.step == 0) loss_sum_ = 0;
    model_.train();
    profiled_.before_step(position_.step);
    Clock::time_point asked = Clock::now();
    for (auto& batch : data::DeviceBatches(data_.train, device_)) {
      if (trace_) trace_->add("wait for data", asked, Clock::now());
      (*step_)(batch, [this] { return where(); });
      if (!folder_.is_open()) {
        folder_.open(false, position_, tested_);
        folder_.log_graph(model_, batch.input.narrow(0, 0, 1));
      }
      result_.steps.lr.push_back(schedule_.last_lr());
      schedule_.step();
      if (averager_) averager_->step();
      take_losses(false);
      ++position_.step;
      ++position_.global_step;
      done += batch.size() * comm_->world_size();
      bar.update(std::min(done, images), fmt::format("loss {:.4f}", last_loss_));
      if (position_.global_step % steps_between_questions() == 0) ask_whether_to_stop();
      if (result_.stopped_by != 0) {
        save();
        break;
      }
      bool last = position_.step == batches;
      if (!last && options_.checkpoint_every > 0 &&
          position_.global_step % options_.checkpoint_every == 0)
        save();
      profiled_.after_step();
      if (!last) profiled_.before_step(position_.step);
      asked = Clock::now();
    }
    profiled_.end_of_epoch();
    return done;
  }

  void take_losses(bool wait) {
    for (const double loss : step_->take_losses(wait)) {
      loss_sum_ += loss;
      last_loss_ = loss;
      result_.steps.loss.push_back(loss);
    }
  }

  /// Ranks that average seldom must not be made to meet at every step, and GPUs not be kept waiting
  /// for a meeting of their hosts.
  std::int64_t steps_between_questions() const {
    return averager_ ? options_.averaging.every : device_.is_cpu() ? 1 : 16;
  }

  std::string where() const {
    return concat(" in epoch ", position_.epoch + 1, ", batch ", position_.step + 1,
                  "; a lower learning rate may help");
  }

  /// What follows an epoch's last batch: the accuracy, a line for the log and one for the user.
  void test_epoch() {
    test();
    const bool is_best = result_.test.accuracy() > result_.best_test_accuracy;
    result_.best_test_accuracy = std::max(result_.best_test_accuracy, result_.test.accuracy());
    folder_.log({{"epoch", static_cast<double>(position_.epoch)},
                 {"step", static_cast<double>(position_.global_step)},
                 {"train_loss", result_.final_loss},
                 {"test_loss", result_.test.loss},
                 {"test_accuracy", result_.test.accuracy()},
                 {"lr", schedule_.last_lr()},
                 {"img_per_s", epoch_img_per_s_},
                 {"seconds", epoch_seconds_}},
                model_);
    if (reports()) {
      *options_.out
          << fmt::format(
                 "epoch {}/{}: loss {:.4f}, test accuracy {:.2f} % ({} of {}), {:.0f} img/s, {}",
                 position_.epoch, options_.epochs, result_.final_loss,
                 100 * result_.test.accuracy(), result_.test.correct, result_.test.total,
                 epoch_img_per_s_, format_duration(epoch_seconds_))
          << std::endl;
    }
    report_epoch();
    tested_ = true;
    save(is_best);
    if (!is_complete()) ask_whether_to_stop();
  }

  void report_epoch() {
    if (!options_.on_epoch) return;
    const bool goes_on = options_.on_epoch({.epoch = position_.epoch,
                                            .train_loss = result_.final_loss,
                                            .test = result_.test,
                                            .lr = schedule_.last_lr(),
                                            .img_per_s = epoch_img_per_s_,
                                            .seconds = epoch_seconds_});
    const Tensor all_go_on = full({1}, goes_on, {.dtype = i32});
    comm_->all_reduce(all_go_on, dist::ReduceOp::min);
    result_.stopped_early = all_go_on.item<int>() == 0;
  }

  void test() {
    const Trace::Span span(trace(), "evaluation");
    if (ddp_) ddp_->broadcast_buffers();
    const AutocastIf amp(device_, options_.amp);
    result_.test =
        evaluate(model_, data_.test, data_.test_transform, *comm_, 250, data_.train.workers());
  }

  /// Whether any rank was asked to stop: all must agree on the step after which they do.
  void ask_whether_to_stop() {
    result_.stopped_by = StopSignal::requested();
    if (comm_->world_size() == 1) return;
    Tensor signal = full({1}, result_.stopped_by, {.dtype = i32});
    questions_->all_reduce(signal, dist::ReduceOp::max);
    result_.stopped_by = signal.item<std::int32_t>();
  }

  double mean_over_ranks(double value) {
    if (ddp_ || reproducible_) return value;  // already is
    Tensor sum = full({1}, value, {.dtype = f64});
    comm_->all_reduce(sum, dist::ReduceOp::avg);
    return sum.item<double>();
  }

  void save(bool is_best = false) {
    if (options_.checkpoint_dir.empty()) return;
    const Trace::Span span(trace(), "checkpoint");
    take_losses(true);
    if (ddp_) ddp_->broadcast_buffers();
    io::Metadata metadata = {{"best_test_accuracy", result_.best_test_accuracy},
                             {"final_loss", result_.final_loss},
                             {"test_loss", result_.test.loss},
                             {"test_correct", result_.test.correct},
                             {"test_total", result_.test.total},
                             {"tested", std::int64_t{tested_}},
                             {"stopped_early", std::int64_t{result_.stopped_early}},
                             {"epoch_seconds", epoch_seconds_},
                             {"epoch_img_per_s", epoch_img_per_s_}};
    state_.communication = communication_state();
    io::Metadata own = {{"loss_sum", loss_sum_}};
    if (scaler_) {
      for (const auto& [name, tensor] : scaler_->state_dict())
        own[concat("scaler.", name)] = tensor.item<double>();
    }
    state_.save(options_.checkpoint_dir, position_, metadata, own, is_best);
    result_.checkpoint = checkpoint_path(options_.checkpoint_dir);
  }

  nn::StateDict communication_state() {
    if (averager_) return averager_->state();
    return ddp_ && ddp_->comm_hook() != nullptr ? ddp_->comm_hook()->state() : nn::StateDict();
  }

  void restore() {
    state_.communication = communication_state();
    const RunState::Restored restored = state_.restore(options_.checkpoint_dir);
    const io::Checkpoint& checkpoint = restored.checkpoint;
    if (reports() && !restored.passed_over.empty())
      *options_.out << "warning: " << restored.passed_over << "; the one before is used"
                    << std::endl;
    if (averager_) averager_->restored();
    position_ = checkpoint.position;
    auto get = [&]<class T>(const char* name, T otherwise) {
      auto found = checkpoint.metadata.find(name);
      const T* value =
          found == checkpoint.metadata.end() ? nullptr : std::get_if<T>(&found->second);
      return value != nullptr ? *value : otherwise;
    };
    loss_sum_ = get("loss_sum", 0.0);
    if (scaler_) {
      nn::StateDict state = scaler_->state_dict();
      for (auto& [name, tensor] : state) {
        const std::string key = concat("scaler.", name);
        tensor = scalar(get(key.c_str(), tensor.item<double>()));
      }
      scaler_->load_state_dict(state);
    }
    result_.best_test_accuracy = get("best_test_accuracy", 0.0);
    result_.final_loss = get("final_loss", 0.0);
    result_.test = {.correct = get("test_correct", std::int64_t{0}),
                    .total = get("test_total", std::int64_t{0}),
                    .loss = get("test_loss", 0.0)};
    tested_ = get("tested", std::int64_t{1}) != 0;
    result_.stopped_early = get("stopped_early", std::int64_t{0}) != 0;
    epoch_seconds_ = get("epoch_seconds", 0.0);
    epoch_img_per_s_ = get("epoch_img_per_s", 0.0);
    result_.checkpoint = restored.path;
    // Whoever was killed just before it was marked.
    if (tested_ && result_.test.total > 0 && result_.test.accuracy() == result_.best_test_accuracy)
      state_.mark_best(options_.checkpoint_dir, restored.path);
    if (reports()) {
      if (is_complete()) {
        *options_.out << fmt::format(
            "the run of {} is complete: {} epoch{}{}", result_.checkpoint.string(), position_.epoch,
            position_.epoch == 1 ? "" : "s", result_.stopped_early ? ", stopped early" : "");
      } else {
        *options_.out << fmt::format("going on from {}: epoch {}, batch {}",
                                     result_.checkpoint.string(), position_.epoch + 1,
                                     position_.step + 1);
      }
      // In reproducible training the bits are the same, whatever the ranks and threads.
      if (!reproducible_ && checkpoint.world_size != comm_->world_size())
        *options_.out << fmt::format(" ({} ranks then, {} now: the last digits will differ)",
                                     checkpoint.world_size, comm_->world_size());
      else if (!reproducible_ && checkpoint.threads != omp_get_max_threads())
        *options_.out << fmt::format(" ({} threads then, {} now: the last digits will differ)",
                                     checkpoint.threads, omp_get_max_threads());
      *options_.out << std::endl;
    }
  }

  bool is_complete() const { return position_.epoch >= options_.epochs || result_.stopped_early; }
  Trace* trace() { return trace_ ? &*trace_ : nullptr; }
  bool reports() const { return options_.out != nullptr && comm_->rank() == 0; }

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  optim::LRSchedule& schedule_;
  FitData data_;
  std::shared_ptr<dist::Communicator> comm_;
  const FitOptions& options_;
  Device device_;
  RunFolder folder_;  // and its lock, which outlives what is still being written
  RunState state_;
  std::optional<dist::DistributedDataParallel> ddp_;
  std::optional<dist::ReproducibleDataParallel> reproducible_;
  std::optional<dist::ParameterAverager> averager_;
  std::shared_ptr<dist::Communicator> questions_ = comm_;
  std::optional<Trace> trace_;
  std::optional<optim::GradScaler> scaler_;
  std::optional<TrainStep> step_;
  ProfiledSteps profiled_{0, 0, 0};

  io::Checkpoint::Position position_;
  FitResult result_;
  double loss_sum_ = 0, last_loss_ = 0, trained_images_ = 0, trained_seconds_ = 0;
  double epoch_seconds_ = 0, epoch_img_per_s_ = 0;  // of the last complete epoch
  bool tested_ = true;                              // as has been its accuracy
};

}  // namespace

FitResult fit(nn::Module& model, optim::Optimizer& optimizer, optim::LRSchedule& schedule,
              FitData data, std::shared_ptr<dist::Communicator> comm, const FitOptions& options) {
  require(options.epochs > 0, "fit: epochs is ", options.epochs, ", but must be positive");
  require(options.averaging.every > 0, "fit: averaging.every is ", options.averaging.every,
          ", but must be positive");
  require(data.train_images > 0 && data.train.size() > 0, "fit: there are no training images");
  require(options.profile_steps >= 0, "fit: profile_steps is ", options.profile_steps,
          ", but must not be negative");
  require(options.shards == 0 ||
              (options.sync == Sync::ddp && options.comm_hook.empty() && !options.graph),
          "fit: reproducible training goes with gradients that are averaged as they are: no "
          "averaging of parameters, no comm hook, no graph");
  require(!options.resume || !options.checkpoint_dir.empty(),
          "fit: resuming needs a checkpoint directory");
  require<DeviceError>(!options.graph || device_of(model).is_cuda(),
                       "fit: a graph is captured on a GPU, but the model is on the CPU");
  return Run(model, optimizer, schedule, std::move(data), std::move(comm), options)();
}

}  // namespace rondo::train
