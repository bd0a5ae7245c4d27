#include "train/fit.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "autograd/autocast.h"
#include "data/prefetch.h"
#include "tensor/creation.h"
#include "tensor/printable.h"
#include "train/agree.h"
#include "train/callback_list.h"
#include "train/ema.h"
#include "train/gradient_sync.h"
#include "train/profiled_steps.h"
#include "train/run_folder.h"
#include "train/run_state.h"
#include "train/step.h"
#include "train/stop.h"
#include "train/training_sums.h"

namespace rondo::train {
namespace {

using Clock = std::chrono::steady_clock;

/// The settings that must be equal when a run is resumed. A position is a number of batches, so it
/// depends on the batch size. Rarely used settings are stored only if they are not the default.
io::Metadata config_of(const FitOptions& options, std::int64_t batch_size) {
  io::Metadata config = options.config;
  config.emplace("batch_size", batch_size);
  if (options.accumulate_grad_batches > 1)
    config.emplace("accumulate_grad_batches", std::int64_t{options.accumulate_grad_batches});
  if (options.zero) config.emplace("zero", std::int64_t{1});
  if (options.max_grad_norm > 0) config.emplace("max_grad_norm", options.max_grad_norm);
  if (options.ema_decay > 0) config.emplace("ema_decay", options.ema_decay);
  return config;
}

class FitRun {
 public:
  FitRun(nn::Module& model, optim::Optimizer& optimizer, optim::LRSchedule& schedule, FitData data,
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
               config_of(options, data_.batch_size),
               false,
               options.keep_checkpoints,
               {},
               options.async_checkpoints} {
    require(options_.keep_checkpoints >= 1, "fit: keep_checkpoints is ", options_.keep_checkpoints,
            ", but must be at least 1");
    check_metrics(options_.metrics);
    if (options_.ema_decay > 0) state_.ema = ema_.emplace(model_, options_.ema_decay).averages();
  }

  FitResult operator()() {
    // The wrappers come first, because they copy rank 0's values to all ranks; restoring a
    // checkpoint then overwrites them.
    sync_ = make_sync(model_, optimizer_, comm_, options_);
    state_.state_per_rank = sync_->state_per_rank();
    questions_ = sync_->questions(comm_);
    if (!options_.trace.empty()) trace_.emplace(*comm_, options_.trace);
    if (options_.amp == f16) scaler_.emplace(device_);
    step_.emplace(
        TrainStepOptions{.model = model_,
                         .optimizer = optimizer_,
                         .sync = sync_.get(),
                         .criterion = options_.criterion,
                         .observe = training_.observer(),
                         .max_grad_norm = options_.max_grad_norm,
                         .observe_norm = [this](const Tensor& norm) { training_.add_norm(norm); },
                         .amp = options_.amp,
                         .scaler = scaler_ ? &*scaler_ : nullptr,
                         .graph = options_.graph,
                         .rank = comm_->rank_in_world(),
                         .trace = trace(),
                         .overlap = comm_->world_size() > 1 ? &result_.overlap : nullptr});
    folder_.lock(options_.resume);
    if (options_.resume) {
      restore();
      folder_.open(true, position_, tested_, report_of_epoch().metrics);
    }
    StopSignal stop;
    callbacks_.on_train_begin(position_.epoch);
    if (!tested_) {
      test_epoch();
    } else if (is_complete()) {
      test();  // a finished run was resumed
    }
    result_.steps.first = position_.global_step + 1;
    const std::int64_t steps = steps_of(data_.train.size());
    profiled_ = ProfiledSteps(
        comm_->rank() == 0 ? options_.profile_steps : 0,
        (options_.epochs - position_.epoch) * steps - steps_of(position_.step), steps);
    while (!is_complete() && result_.stopped_by == 0) train_epoch();
    state_.finish();
    if (trace_) trace_->write(options_.trace);
    result_.profile = profiled_.result();
    if (result_.profile && !options_.profile.empty())
      result_.profile->write_chrome_trace(options_.profile, comm_->rank());
    result_.epochs = position_.epoch;
    if (ema_) result_.ema = ema_->state_dict();
    if (trained_seconds_ > 0) result_.img_per_s = trained_images_ / trained_seconds_;
    if (result_.stopped_by != 0 && !is_complete() && reports()) *options_.out << how_to_go_on();
    callbacks_.on_train_end(result_);
    return result_;
  }

 private:
  std::string how_to_go_on() const {
    const std::string place = fmt::format("\nstopped by a signal in epoch {} of {}",
                                          position_.epoch + 1, options_.epochs);
    if (result_.checkpoint.empty()) return place + "; to be able to continue, set checkpoint_dir\n";
    return concat(place, "; the checkpoint is ", result_.checkpoint,
                  "\nto continue: the same run with resume (--resume)\n");
  }

  void train_epoch() {
    auto start = Clock::now();
    std::int64_t images = train_batches();
    if (result_.stopped_by != 0) {
      sync_->finish();  // all ranks return the same model
      sync_->broadcast_buffers();
      return;
    }
    if (options_.join) join();
    take_losses(true);
    sync_->finish();
    training_.end_epoch(*comm_);
    epoch_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    epoch_img_per_s_ = static_cast<double>(images) / epoch_seconds_;
    trained_seconds_ += epoch_seconds_;
    trained_images_ += static_cast<double>(images);
    result_.final_loss = sync_->mean_over_ranks(loss_sum_) / static_cast<double>(losses_in_epoch_);
    ++position_.epoch;
    position_.step = 0;
    tested_ = false;
    save();  // the epoch is saved even if the run is killed in a long evaluation
    test_epoch();
  }

  /// Trains for the rest of the epoch, or until a stop is requested; returns the number of images.
  std::int64_t train_batches() {
    const std::int64_t batches = data_.train.size();
    // 0 if the run was stopped after the last, smaller batch.
    std::int64_t images =
        std::max<std::int64_t>(0, data_.train_images - position_.step * data_.batch_size);
    std::int64_t done = 0;
    ProgressBar bar(reports() ? options_.out : nullptr,
                    fmt::format("epoch {}/{}", position_.epoch + 1, options_.epochs), images, "img",
                    options_.progress);
    data_.train.set_epoch(static_cast<std::uint64_t>(position_.epoch), position_.step);
    if (position_.step == 0) {
      loss_sum_ = 0, losses_in_epoch_ = 0;
      training_.begin_epoch();
    }
    model_.train();
    profiled_.before_step(steps_of(position_.step));
    Clock::time_point asked = Clock::now();
    std::vector<data::Batch> together;  // of the next step
    for (auto& batch : data::DeviceBatches(data_.train, device_)) {
      if (trace_) trace_->add("wait for data", asked, Clock::now());
      done += batch.size() * comm_->world_size();
      together.push_back(std::move(batch));
      const std::int64_t at = position_.step + std::ssize(together);
      asked = Clock::now();
      if (std::ssize(together) < options_.accumulate_grad_batches && at < batches) continue;
      train_step(together);
      together.clear();
      bar.update(std::min(done, images), fmt::format("loss {:.4f}", last_loss_));
      if (position_.global_step % sync_->steps_between_questions(device_) == 0 && !options_.join)
        ask_whether_to_stop();
      if (result_.stopped_by != 0) {
        save();
        break;
      }
      const bool last = at == batches;
      if (!last && options_.checkpoint_every > 0 &&
          position_.global_step % options_.checkpoint_every == 0)
        save();
      profiled_.after_step();
      if (!last) profiled_.before_step(steps_of(at));
      asked = Clock::now();
    }
    profiled_.end_of_epoch();
    return std::min(done, images);
  }

  void train_step(std::span<const data::Batch> batches) {
    (*step_)(batches, [this] { return where(); });
    if (!folder_.is_open()) {
      folder_.open(false, position_, tested_, {});
      folder_.log_graph(model_, batches[0].input.narrow(0, 0, 1));
    }
    position_.step += std::ssize(batches);
    end_step();
  }

  /// The work after the optimizer's step.
  void end_step() {
    const double lr = schedule_.last_lr();
    result_.steps.lr.push_back(lr);
    schedule_.step();
    take_losses(false);
    ++position_.global_step;
    if (ema_) ema_->update(position_.global_step);
    callbacks_.on_step_end({.epoch = position_.epoch + 1,
                            .step = position_.global_step,
                            .loss = last_loss_,
                            .lr = lr});
  }

  /// Takes part in the steps of ranks that have more batches.
  void join() {
    sync_->join([this] {
      step_->update();
      end_step();
    });
  }

  void take_losses(bool wait) {
    for (const double loss : step_->take_losses(wait)) {
      loss_sum_ += loss;
      ++losses_in_epoch_;
      last_loss_ = loss;
      result_.steps.loss.push_back(loss);
    }
  }

  std::int64_t steps_of(std::int64_t batches) const {
    return train::steps_of(batches, options_.accumulate_grad_batches);
  }

  std::string where() const {
    return concat(" in epoch ", position_.epoch + 1, ", batch ", position_.step + 1,
                  "; a lower learning rate may help");
  }

  /// The end of an epoch: evaluates, writes a line to the log and prints one.
  void test_epoch() {
    test();
    const Evaluation& now = result_.test;
    const bool is_best = now.total > 0 ? now.accuracy() > result_.best_test_accuracy
                                       : now.samples > 0 && now.loss < result_.best_test_loss;
    result_.best_test_accuracy = std::max(result_.best_test_accuracy, now.accuracy());
    if (now.samples > 0) result_.best_test_loss = std::min(result_.best_test_loss, now.loss);
    const EpochReport report = report_of_epoch();
    folder_.log(report.metrics, model_);
    if (reports()) *options_.out << line_of(report, options_.epochs) << std::endl;
    result_.stopped_early = !callbacks_.on_epoch_end(report, *comm_);
    tested_ = true;
    save(is_best);
    ask_whether_to_stop();  // after the last epoch, too: the program may go on with another run
  }

  EpochReport report_of_epoch() const {
    EpochReport report{.epoch = position_.epoch,
                       .train_loss = result_.final_loss,
                       .train = training_.metrics(),
                       .test = result_.test,
                       .lr = schedule_.last_lr(),
                       .img_per_s = epoch_img_per_s_,
                       .seconds = epoch_seconds_};
    report.metrics = metrics_of(report, position_.global_step);
    return report;
  }

  void test() {
    if (data_.test == nullptr) return;
    const TimelineTrace::Span span(trace(), "evaluation");
    sync_->broadcast_buffers();
    const AutocastIf amp(device_, options_.amp);
    std::optional<Ema::Applied> averages;
    if (ema_) averages.emplace(*ema_);
    result_.test = evaluate(model_, data_.test, data_.test_transform, *comm_,
                            {.workers = data_.train.workers(),
                             .criterion = options_.criterion,
                             .count = options_.count,
                             .metrics = options_.metrics});
  }

  /// Asks whether any rank was asked to stop. All ranks must stop after the same step.
  void ask_whether_to_stop() {
    result_.stopped_by = StopSignal::requested();
    if (comm_->world_size() == 1) return;
    Tensor signal = full({1}, result_.stopped_by, {.dtype = i32});
    questions_->all_reduce(signal, dist::ReduceOp::max);
    result_.stopped_by = signal.item<std::int32_t>();
  }

  void save(bool is_best = false) {
    if (options_.checkpoint_dir.empty()) return;
    const TimelineTrace::Span span(trace(), "checkpoint");
    take_losses(true);
    sync_->broadcast_buffers();
    io::Metadata metadata = {{"best_test_accuracy", result_.best_test_accuracy},
                             {"best_test_loss", result_.best_test_loss},
                             {"final_loss", result_.final_loss},
                             {"test_loss", result_.test.loss},
                             {"test_correct", result_.test.correct},
                             {"test_total", result_.test.total},
                             {"test_samples", result_.test.samples},
                             {"tested", std::int64_t{tested_}},
                             {"stopped_early", std::int64_t{result_.stopped_early}},
                             {"epoch_seconds", epoch_seconds_},
                             {"epoch_img_per_s", epoch_img_per_s_}};
    for (const auto& [name, value] : result_.test.metrics) metadata[concat("test.", name)] = value;
    training_.save(metadata, *comm_);
    callbacks_.save(metadata);
    state_.communication = sync_->state();
    io::Metadata own = {{"loss_sum", loss_sum_}, {"losses_in_epoch", losses_in_epoch_}};
    if (scaler_) {
      for (const auto& [name, tensor] : scaler_->state_dict())
        own[concat("scaler.", name)] = tensor.item<double>();
    }
    state_.save(options_.checkpoint_dir, position_, metadata, own, is_best);
    result_.checkpoint = checkpoint_path(options_.checkpoint_dir);
  }

  void restore() {
    state_.communication = sync_->state();
    const RunState::Restored restored = state_.restore(options_.checkpoint_dir);
    const io::Checkpoint& checkpoint = restored.checkpoint;
    if (reports() && !restored.passed_over.empty())
      *options_.out << "warning: " << printable(restored.passed_over) << "; using the previous one"
                    << std::endl;
    sync_->restored();
    position_ = checkpoint.position;
    auto get = [&]<class T>(const char* name, T otherwise) {
      auto found = checkpoint.metadata.find(name);
      const T* value =
          found == checkpoint.metadata.end() ? nullptr : std::get_if<T>(&found->second);
      return value != nullptr ? *value : otherwise;
    };
    loss_sum_ = get("loss_sum", 0.0);
    losses_in_epoch_ = get("losses_in_epoch", position_.step);
    if (scaler_) {
      nn::StateDict state = scaler_->state_dict();
      for (auto& [name, tensor] : state) {
        const std::string key = concat("scaler.", name);
        tensor = scalar(get(key.c_str(), tensor.item<double>()));
      }
      scaler_->load_state_dict(state);
    }
    result_.best_test_accuracy = get("best_test_accuracy", 0.0);
    result_.best_test_loss = get("best_test_loss", std::numeric_limits<double>::infinity());
    result_.final_loss = get("final_loss", 0.0);
    result_.test = {.correct = get("test_correct", std::int64_t{0}),
                    .total = get("test_total", std::int64_t{0}),
                    .loss = get("test_loss", 0.0)};
    result_.test.samples = get("test_samples", result_.test.total);
    if (data_.test == nullptr) result_.test = {};
    for (const Metric& metric : options_.metrics)
      if (data_.test != nullptr)
        result_.test.metrics[metric.name] = get(concat("test.", metric.name).c_str(), 0.0);
    training_.restore(checkpoint.metadata, *comm_);
    callbacks_.restore(checkpoint.metadata);
    tested_ = get("tested", std::int64_t{1}) != 0;
    result_.stopped_early = get("stopped_early", std::int64_t{0}) != 0;
    epoch_seconds_ = get("epoch_seconds", 0.0);
    epoch_img_per_s_ = get("epoch_img_per_s", 0.0);
    result_.checkpoint = restored.path;
    // The run may have been killed just before it marked the best checkpoint.
    const Evaluation& test = result_.test;
    if (tested_ && test.samples > 0 &&
        (test.total > 0 ? test.accuracy() == result_.best_test_accuracy
                        : test.loss == result_.best_test_loss))
      state_.mark_best(options_.checkpoint_dir, restored.path);
    if (reports())
      *options_.out << text_of(restored, is_complete(), result_.stopped_early)
                    << sync_->differences(checkpoint, *comm_) << std::endl;
  }

  bool is_complete() const { return position_.epoch >= options_.epochs || result_.stopped_early; }
  TimelineTrace* trace() { return trace_ ? &*trace_ : nullptr; }
  bool reports() const { return options_.out != nullptr && comm_->rank() == 0; }

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  optim::LRSchedule& schedule_;
  FitData data_;
  std::shared_ptr<dist::Communicator> comm_;
  const FitOptions& options_;
  CallbackList callbacks_{options_.callbacks, options_.on_epoch};
  Device device_;
  RunFolder folder_;  // its lock outlives the writes in progress
  RunState state_;
  std::unique_ptr<GradientSync> sync_;
  std::shared_ptr<dist::Communicator> questions_ = comm_;
  std::optional<TimelineTrace> trace_;
  std::optional<optim::GradScaler> scaler_;
  std::optional<TrainStep> step_;
  TrainingSums training_{options_, device_};
  std::optional<Ema> ema_;
  ProfiledSteps profiled_{0, 0, 0};

  io::Checkpoint::Position position_;
  FitResult result_;
  std::int64_t losses_in_epoch_ = 0;
  double loss_sum_ = 0, last_loss_ = 0, trained_images_ = 0, trained_seconds_ = 0;
  double epoch_seconds_ = 0, epoch_img_per_s_ = 0;  // of the last complete epoch
  bool tested_ = true;                              // whether it was evaluated
};

}  // namespace

std::int64_t steps_of(std::int64_t batches, int accumulate_grad_batches) {
  const std::int64_t together = accumulate_grad_batches;
  require(together >= 1, "fit: accumulate_grad_batches is ", together, ", but must be at least 1");
  return (batches + together - 1) / together;
}

FitResult fit(nn::Module& model, optim::Optimizer& optimizer, optim::LRSchedule& schedule,
              FitData data, std::shared_ptr<dist::Communicator> comm, const FitOptions& options) {
  check_options(options, data, model, optimizer);
  agree_on_options(optimizer, schedule, data, *comm, options);
  return FitRun(model, optimizer, schedule, std::move(data), std::move(comm), options)();
}

}  // namespace rondo::train
