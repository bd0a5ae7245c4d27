// A classifier program from start to end: rank, threads and device, then the data and the model,
// then training, evaluation or prediction, and last the results.
#include "classifier.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/reduce.h"
#include "data/resident.h"
#include "dist/data_parallel/comm_hook.h"
#include "dist/data_parallel/sync_batch_norm.h"
#include "dist/launch/device.h"
#include "dist/launch/init.h"
#include "dist/launch/launcher.h"
#include "dist/launch/threads.h"
#include "flags.h"
#include "io/checkpoint.h"
#include "io/hash.h"
#include "nn/models/models.h"
#include "nn/summary.h"
#include "optim/one_cycle.h"
#include "outputs.h"
#include "parts.h"
#include "predict.h"
#include "report.h"
#include "tensor/backend.h"
#include "tensor/printable.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/progress_bar.h"
#include "train/run_state.h"
#include "train/share_of_data.h"

namespace examples {

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

/// The program after dist::init.
class ClassifierProgram {
 public:
  ClassifierProgram(const Flags& flags, std::shared_ptr<rd::dist::Communicator> comm)
      : flags_(flags),
        comm_(std::move(comm)),
        out_(comm_->rank() != 0  ? nullptr
             : flags.json == "-" ? &std::cerr
                                 : &std::cout) {}

  int operator()() {
    rd::backend(rd::Device::cpu());  // reads RONDO_ISA, RONDO_CONV, …; no flag gets the blame
    agree_on_flags(flags_, *comm_);
    threads_ = rd::dist::use_threads(*comm_, flags_.threads);
    device_ = rd::dist::use_device(*comm_, flags_.device);
    rd::require(device_.is_cuda() || !flags_.graph, "--graph needs a GPU: --device cuda");
    rd::require(device_.is_cuda() || !flags_.resident, "--resident needs a GPU: --device cuda");
    rd::require(device_.is_cuda() || flags_.all_reduce != "nccl",
                "--all-reduce nccl needs GPUs: --device cuda");
    const bool averages = flags_.sync == "average";
    rd::require(!averages || flags_.compress.empty(), "--compress needs --sync ddp");
    rd::require(
        !flags_.zero || (!averages && flags_.compress.empty() && flags_.reproducible == 0 &&
                         !flags_.graph && flags_.amp != "f16"),
        "--zero cannot be combined with --sync average, --compress, --reproducible, --graph or "
        "--amp f16");
    rd::require(
        flags_.accumulate == 1 || (flags_.reproducible == 0 && !flags_.graph),
        "--accumulate cannot be combined with --reproducible or --graph; use a larger --batch "
        "instead");
    rd::require(flags_.overlap || (!averages && flags_.reproducible == 0),
                "--no-overlap needs --sync ddp, and cannot be combined with --reproducible");
    rd::require(
        averages ||
            (!flags_.average_async && flags_.average_warmup == 0 &&
             flags_.average_every == Flags().average_every && flags_.average_node_every == 0 &&
             flags_.outer_lr == 1 && flags_.outer_momentum == 0),
        "--average-every, --average-async, --average-warmup, --average-node-every, --outer-lr "
        "and --outer-momentum need --sync average");
    rd::require(
        flags_.reproducible == 0 ||
            (!averages && flags_.compress.empty() && !flags_.sync_bn && device_.is_cpu()),
        "--reproducible cannot be combined with --sync average, --compress, --sync-bn or --device "
        "cuda");
    rd::require(!flags_.average_async || (flags_.outer_lr == 1 && flags_.outer_momentum == 0 &&
                                          flags_.average_node_every == 0),
                "--average-async cannot be combined with --outer-lr, --outer-momentum or "
                "--average-node-every");
    const auto shards = static_cast<unsigned>(flags_.reproducible);
    rd::require(
        shards == 0 || (std::has_single_bit(shards) && flags_.reproducible >= comm_->world_size()),
        "--reproducible ", shards,
        ": shards must be a power of two, and at least as many as "
        "the ",
        comm_->world_size(), comm_->world_size() == 1 ? " rank" : " ranks");
    rd::require(flags_.shortcut == Flags().shortcut || flags_.model.starts_with("resnet") ||
                    !flags_.weights.empty(),
                "--shortcut applies to the CIFAR ResNets, not to --model ", flags_.model);
    rd::require(flags_.amp != "f16" || device_.is_cuda(),
                "--amp f16 needs a GPU: --device cuda; on the CPU use --amp bf16");
    if (!flags_.compress.empty())
      for_flag("--compress", [&] { return rd::dist::make_comm_hook(flags_.compress); });
    check_outputs(flags_, *comm_);
    const bool trains = examples::trains(flags_);
    rd::require(!trains || flags_.batch % comm_->world_size() == 0, "--batch ", flags_.batch,
                " is not divisible by the ", comm_->world_size(), " ranks");
    std::string path = flags_.weights;
    if (path.empty() && !trains) path = rd::train::checkpoint_path(flags_.checkpoint_dir).string();
    std::optional<Weights> weights;
    if (!path.empty()) {
      const char* flag = flags_.weights.empty() ? "--checkpoint-dir" : "--weights";
      weights = for_flag(flag, [&] { return read_weights(path, flags_, /*decides=*/!trains); });
    }
    if (out_ != nullptr && weights && !weights->description.empty())
      *out_ << rd::printable(weights->description, "\n") << std::endl;
    Datasets data = open_data(flags_);
    rd::manual_seed(flags_.seed);
    nn::AnyModule model = make_network(flags_, *data.test);
    if (weights) {
      load_weights(*weights, model);
      if (out_ != nullptr && !trains && !weights->dataset.empty() &&
          weights->dataset != flags_.dataset)
        *out_ << "note: " << rd::printable(path) << " was trained on "
              << rd::printable(weights->dataset)
              << "; the images are normalised by the mean and standard deviation of that data set"
              << std::endl;
    }
    model.to(device_);
    if (flags_.summary) {
      const rd::data::ImageDataset& images = *data.test;
      const nn::ModelSummary summary =
          nn::summarize(model, {1, images.channels(), images.height(), images.width()});
      if (out_ != nullptr) *out_ << summary << std::flush;
      return 0;
    }
    if (!flags_.export_onnx.empty()) {
      if (comm_->rank() == 0) export_model(flags_, model, *data.test);
      if (out_ != nullptr)
        *out_ << rd::printable(path) << " as ONNX: " << rd::printable(flags_.export_onnx)
              << std::endl;
      if (!flags_.eval && flags_.predict.empty()) return 0;
    }
    if (!flags_.predict.empty()) return predict(model, *data.test);
    if (flags_.eval) return evaluate(model, data.test, path);
    return train(model, data);
  }

 private:
  int train(nn::AnyModule& model, const Datasets& data) {
    // From here on each rank draws its own random numbers (dropout). The model still starts from
    // rank 0's parameters. With --reproducible each shard has its own stream instead.
    if (flags_.reproducible == 0)
      rd::default_generator().manual_seed(flags_.seed + static_cast<std::uint64_t>(comm_->rank()) *
                                                            0x9E3779B97F4A7C15u);
    std::shared_ptr<const rd::data::Dataset> images = data.train;
    if (flags_.resident) images = std::make_shared<rd::data::ResidentDataset>(*data.train, device_);
    rd::train::ShareOfData share =
        rd::train::share_of_data(images, {.batch_size = flags_.batch,
                                          .rank = comm_->rank(),
                                          .world_size = comm_->world_size(),
                                          .shards = flags_.reproducible,
                                          .seed = flags_.seed,
                                          .workers = flags_.resident ? 0 : 1,
                                          .prefetch = 4,
                                          .transform = make_transform(flags_, *data.train, true)});
    rd::data::DataLoader& loader = share.loader;
    if (flags_.sync_bn) rd::dist::convert_sync_batch_norm(model.get(), comm_);
    auto optimizer = make_optimizer(flags_, model);
    const std::int64_t steps = rd::train::steps_of(loader.size(), flags_.accumulate);
    optim::OneCycleLR schedule(
        *optimizer,
        {.max_lr = flags_.lr, .total_steps = flags_.epochs * steps + 1, .cycle_momentum = false});
    announce(model.get(), data);
    rd::train::FitResult result = rd::train::fit(
        model, *optimizer, schedule,
        {.train = loader,
         .train_images = share.images,
         .batch_size = flags_.batch,
         .test = data.test,
         .test_transform = make_transform(flags_, *data.test, false)},
        comm_,
        {.epochs = flags_.epochs,
         .sync = flags_.sync == "ddp" ? rd::train::Sync::ddp : rd::train::Sync::average,
         .averaging = averaging(),
         .ddp = {.overlap = flags_.overlap},
         .comm_hook = flags_.compress,
         .zero = flags_.zero,
         .accumulate_grad_batches = flags_.accumulate,
         .shards = flags_.reproducible,
         .amp = amp(),
         .graph = flags_.graph,
         .checkpoint_dir = flags_.checkpoint_dir,
         .checkpoint_every = flags_.checkpoint_every,
         .keep_checkpoints = flags_.keep_checkpoints,
         .async_checkpoints = flags_.async_checkpoints,
         .resume = flags_.resume,
         .model_name = flags_.model,
         .config = shared_config(flags_, {{"--dataset", flags_.dataset},
                                          {"--epochs", flags_.epochs},
                                          {"--batch", flags_.batch},
                                          {"--lr", flags_.lr},
                                          {"--optimizer", flags_.optimizer},
                                          {"--sync", flags_.sync},
                                          {"--seed", static_cast<std::int64_t>(flags_.seed)},
                                          {"--limit", flags_.limit},
                                          {"--weight-decay", flags_.weight_decay},
                                          {"--average-every", std::int64_t{flags_.average_every}},
                                          {"--all-reduce", flags_.all_reduce},
                                          {"--augment", std::int64_t{flags_.augment}},
                                          {"--mean", flags_.mean},
                                          {"--std", flags_.std}}),
         .csv = flags_.csv,
         .tensorboard = flags_.tensorboard,
         .trace = flags_.trace,
         .profile_steps =
             flags_.profile.empty() && flags_.report.empty() ? 0 : flags_.profile_steps,
         .profile = flags_.profile,
         .out = out_,
         .progress = rd::train::parse_progress(flags_.progress)});
    report(model, result);
    // The report comes last: if it fails, all other results are already printed and written.
    if (!flags_.report.empty() && !is_cut_short(result)) {
      const rd::AutocastIf scope(device_, amp());
      write_report_of(flags_, model, *data.test, make_transform(flags_, *data.test, false), result,
                      *comm_, threads_);
      if (out_ != nullptr) *out_ << "report " << flags_.report << std::endl;
    }
    return is_cut_short(result) ? 128 + result.stopped_by : 0;
  }

  /// A signal in the last evaluation came too late.
  bool is_cut_short(const rd::train::FitResult& result) const {
    return result.stopped_by != 0 && result.epochs < flags_.epochs;
  }

  std::optional<rd::DType> amp() const {
    return flags_.amp.empty() ? std::nullopt : std::optional(rd::parse_dtype(flags_.amp));
  }

  rd::dist::AveragerOptions averaging() {
    const bool by_node = flags_.sync == "average" && flags_.average_node_every > 0;
    return {.every = flags_.average_every,
            .warmup_steps = flags_.average_warmup,
            .group = by_node ? rd::dist::machine_group(*comm_) : nullptr,
            .group_every = by_node ? flags_.average_node_every : 0,
            .outer_lr = flags_.outer_lr,
            .outer_momentum = flags_.outer_momentum,
            .async = flags_.average_async};
  }

  int evaluate(nn::AnyModule& model, const std::shared_ptr<rd::data::ImageDataset>& test,
               const std::string& weights) {
    auto start = std::chrono::steady_clock::now();
    const rd::AutocastIf scope(device_, amp());
    rd::train::Evaluation result =
        rd::train::evaluate(model, test, make_transform(flags_, *test, false), *comm_);
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (out_ != nullptr) {
      *out_ << flags_.model << " on " << flags_.dataset << ": " << result.correct << " of "
            << result.total << " correct, " << percent(result.accuracy()) << ", loss "
            << result.loss << "\n";
    }
    write_json({{"model", flags_.model},
                {"world_size", comm_->world_size()},
                {"device", device_.is_cuda() ? "cuda" : "cpu"},
                {"epochs", 0},
                {"test_accuracy", result.accuracy()},
                {"test_correct", result.correct},
                {"test_loss", result.loss},
                {"best_test_accuracy", result.accuracy()},
                {"img_per_s", static_cast<double>(result.total) / seconds.count()},
                {"final_loss", nullptr},
                {"param_hash", rd::io::param_hash(model.state_dict())},
                {"checkpoint", weights}});
    return 0;
  }

  int predict(nn::AnyModule& model, const rd::data::ImageDataset& like) {
    Tensor image =
        fit_image(read_ppm(flags_.predict), like.channels(), like.height(), like.width());
    rd::NoGradGuard no_grad;
    const rd::AutocastIf scope(device_, amp());
    model.eval();
    const std::int64_t index = 0;
    Tensor probability =
        softmax(model(make_transform(flags_, like, false).apply(image, {&index, 1}).to(device_)), 1)
            .to(rd::Device::cpu());
    rd::ValuesAndIndices best = topk(probability, std::min<std::int64_t>(3, probability.size(1)));
    if (out_ == nullptr) return 0;
    nlohmann::json classes;
    *out_ << rd::printable(flags_.predict) << ":";
    for (std::int64_t i = 0; i < best.values.size(1); ++i) {
      auto which = static_cast<std::size_t>(best.indices[0][i].item<std::int64_t>());
      auto share = best.values[0][i].item<double>();
      *out_ << (i ? ", " : " ") << rd::printable(like.class_names().at(which)) << " "
            << percent(share);
      classes.push_back({{"name", like.class_names().at(which)}, {"probability", share}});
    }
    *out_ << "\n";
    write_json({{"model", flags_.model}, {"image", flags_.predict}, {"classes", classes}});
    return 0;
  }

  void announce(nn::Module& model, const Datasets& data) {
    if (out_ == nullptr) return;
    *out_ << flags_.model << " (" << model.num_parameters() << " parameters) on " << flags_.dataset
          << ", " << data.train->size() << " training and " << data.test->size() << " test images; "
          << comm_->world_size() << (comm_->world_size() == 1 ? " rank" : " ranks") << " with "
          << threads_ << (threads_ == 1 ? " thread" : " threads")
          << (device_.is_cuda() ? " and a GPU" : "") << ", batch " << flags_.batch << ", "
          << flags_.optimizer << ", --sync " << flags_.sync << ways() << std::endl;
  }

  /// The flags with other values than their defaults that change what is computed or sent.
  std::string ways() const {
    std::string text;
    if (flags_.accumulate > 1) text += rd::concat(", --accumulate ", flags_.accumulate);
    if (flags_.zero) text += ", --zero";
    if (!flags_.amp.empty()) text += rd::concat(", --amp ", flags_.amp);
    if (!flags_.compress.empty()) text += rd::concat(", --compress ", flags_.compress);
    if (flags_.reproducible > 0) text += rd::concat(", --reproducible ", flags_.reproducible);
    return text;
  }

  void report(nn::AnyModule& model, const rd::train::FitResult& result) {
    std::string hash = rd::io::param_hash(model.state_dict());
    comm_->agree("the hash of the trained model", hash);
    if (out_ != nullptr) {
      std::string directory = flags_.checkpoint_dir;
      if (!is_cut_short(result)) {
        *out_ << "\nfinal test accuracy " << percent(result.test.accuracy()) << " ("
              << result.test.correct << " of " << result.test.total << "), best "
              << percent(result.best_test_accuracy) << speed(result) << "\ncheckpoint "
              << result.checkpoint << ", metrics " << directory << "/metrics.jsonl"
              << "\nwhat to try next: --epochs " << 3 * flags_.epochs
              << " (from the start) for more accuracy, --model "
              << (flags_.model == "mlp" ? "resnet20 for a convolutional net, "
                                        : "resnet18 for a larger net, ")
              << "--model " << flags_.model << " --dataset " << flags_.dataset
              << " --checkpoint-dir " << rd::shell_word(directory)
              << " --predict IMAGE.ppm to classify an image with this model\n";
      }
      if (result.profile != nullptr && !flags_.profile.empty())
        *out_ << "\nprofile (" << flags_.profile << "): " << result.profile->table();
      else if (!flags_.profile.empty())
        *out_ << "\nno step was profiled, since the run was too short; " << flags_.profile
              << " was not written\n";
      out_->flush();
    }
    write_json({{"model", flags_.model},
                {"world_size", comm_->world_size()},
                {"device", device_.is_cuda() ? "cuda" : "cpu"},
                {"epochs", result.epochs},
                {"test_accuracy", measured(result.test.accuracy(), result.test.total > 0)},
                {"test_correct", measured(result.test.correct, result.test.total > 0)},
                {"best_test_accuracy", measured(result.best_test_accuracy, result.epochs > 0)},
                {"img_per_s", measured(result.img_per_s, result.img_per_s > 0)},
                {"final_loss", measured(result.final_loss, result.epochs > 0)},
                {"param_hash", hash},
                {"checkpoint", result.checkpoint}});
  }

  void write_json(const nlohmann::json& result) const {
    if (comm_->rank() == 0) examples::write_json(flags_, result);
  }

  /// null in JSON for a value that a run did not measure because it was stopped early.
  static nlohmann::json measured(const nlohmann::json& value, bool is) {
    return is ? value : nullptr;
  }

  static std::string speed(const rd::train::FitResult& result) {
    return result.img_per_s > 0
               ? rd::concat(", ", rd::train::format_rate(result.img_per_s), " img/s")
               : "";
  }

  static std::string percent(double fraction) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << 100 * fraction << " %";
    return text.str();
  }

  Flags flags_;
  std::shared_ptr<rd::dist::Communicator> comm_;
  std::ostream* out_;  // null on all ranks but the first
  int threads_ = 1;
  rd::Device device_;
};

}  // namespace

int run_classifier(int argc, char** argv, const std::string& description, Flags defaults) {
  return rd::dist::run([&] {
    Parsed parsed = parse_flags(argc, argv, description, defaults);
    if (parsed.help) {
      auto launcher = rd::dist::read_launcher();
      if (!launcher || launcher->rank == 0) std::cout << *parsed.help;
      return 0;
    }
    auto comm = rd::dist::init(
        {.communicator = {.all_reduce = rd::dist::parse_all_reduce(parsed.flags.all_reduce),
                          .timeout = std::chrono::nanoseconds(
                              static_cast<std::int64_t>(parsed.flags.timeout * 1e9))}});
    if (parsed.error) throw rd::Error(*parsed.error);
    return ClassifierProgram(parsed.flags, comm)();
  });
}

}  // namespace examples
