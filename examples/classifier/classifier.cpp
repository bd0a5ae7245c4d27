// A classifier program from end to end: who am I (rank, threads), the data, the model, then train,
// or evaluate, or predict, and say what came out.
#include "classifier.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/reduce.h"
#include "data/loader.h"
#include "data/open.h"
#include "data/transforms.h"
#include "dist/init.h"
#include "dist/launcher.h"
#include "dist/threads.h"
#include "flags.h"
#include "io/checkpoint.h"
#include "io/hash.h"
#include "io/safetensors.h"
#include "nn/models/models.h"
#include "optim/adam.h"
#include "optim/one_cycle.h"
#include "optim/sgd.h"
#include "predict.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/run_state.h"

namespace examples {

using namespace rondo;

namespace {

struct Datasets {
  std::shared_ptr<data::ImageDataset> train, test;
};

Datasets open_data(const Flags& flags, std::ostream* out) {
  data::OpenOptions options;
  options.download.data_dir = flags.data;
  if (flags.limit > 0) options.limit = flags.limit;
  if (out != nullptr) {
    options.download.progress = [out](const std::string& file, std::int64_t received,
                                      std::int64_t total) {
      *out << "\rdownloading " << file << ": " << received / 1000000 << " of " << total / 1000000
           << " MB" << std::flush;
      if (received == total) *out << "\n";
    };
  }
  bool train = !flags.eval && flags.predict.empty();
  return {train ? data::open_dataset(flags.dataset, data::Split::train, options) : nullptr,
          data::open_dataset(flags.dataset, data::Split::test, options)};
}

/// Bytes to normalised floats, with random crops and flips where the flags ask for them in
/// training.
data::ImageTransform make_transform(const Flags& flags, const data::ImageDataset& images,
                                    bool training) {
  data::ImageStatistics statistics = data::statistics_of(flags.dataset);
  if (!flags.mean.empty())
    statistics.mean = parse_channels("--mean", flags.mean, images.channels());
  if (!flags.std.empty()) statistics.std = parse_channels("--std", flags.std, images.channels());
  std::vector<data::ImageStep> steps;
  if (training && flags.augment) {
    steps.push_back(data::RandomCrop{.height = images.height(), .width = images.width(), .padding = 4});
    steps.push_back(data::RandomHorizontalFlip{});
  }
  steps.push_back(data::ToFloat{});
  steps.push_back(data::Normalize{statistics.mean, statistics.std});
  return data::ImageTransform(steps, {.seed = flags.seed});
}

nn::AnyModule make_network(const Flags& flags, const data::ImageDataset& images) {
  return nn::make_model(flags.model,
                        {.num_classes = images.num_classes(),
                         .in_channels = images.channels(),
                         .in_features = images.channels() * images.height() * images.width()});
}

/// Puts the weights of a checkpoint, or of any safetensors file with the model's keys, into the
/// model.
void load_weights(const std::string& path, nn::Module& model) {
  bool is_checkpoint = io::load_safetensors_metadata(path).contains("rondo.checkpoint");
  model.load_state_dict(is_checkpoint ? io::load_checkpoint(path).model_state
                                      : io::load_safetensors(path).tensors);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Flags& flags, nn::Module& model) {
  if (flags.optimizer == "sgd") {
    return std::make_unique<optim::SGD>(
        model.parameters(),
        optim::SgdOptions{
            .lr = flags.lr, .momentum = 0.9, .weight_decay = flags.weight_decay, .nesterov = true});
  }
  optim::AdamOptions options{.lr = flags.lr, .weight_decay = flags.weight_decay};
  if (flags.optimizer == "adam") return std::make_unique<optim::Adam>(model.parameters(), options);
  return std::make_unique<optim::AdamW>(
      model.parameters(), optim::AdamWOptions{.lr = flags.lr, .weight_decay = flags.weight_decay});
}

/// The program, once the world stands.
class Program {
 public:
  Program(const Flags& flags, std::shared_ptr<dist::Communicator> comm)
      : flags_(flags),
        comm_(std::move(comm)),
        out_(comm_->rank() != 0  ? nullptr
             : flags.json == "-" ? &std::cerr
                                 : &std::cout),
        threads_(dist::use_threads(*comm_, flags.threads)) {}

  int operator()() {
    agree_on_flags(flags_, *comm_);
    require(flags_.batch % comm_->world_size() == 0, "--batch ", flags_.batch,
            " does not divide by the ", comm_->world_size(), " ranks");
    Datasets data = open_data(flags_, out_);
    manual_seed(flags_.seed);
    nn::AnyModule model = make_network(flags_, *data.test);
    if (!flags_.weights.empty()) load_weights(flags_.weights, model);
    if (!flags_.predict.empty()) return predict(model, *data.test);
    if (flags_.eval) return evaluate(model, data.test);
    return train(model, data);
  }

 private:
  int train(nn::AnyModule& model, const Datasets& data) {
    // From here on the ranks draw different numbers (dropout); the model starts from rank 0's.
    default_generator().manual_seed(flags_.seed + static_cast<std::uint64_t>(comm_->rank()) *
                                                      0x9E3779B97F4A7C15u);
    auto sampler = std::make_shared<data::DistributedSampler>(
        data.train->size(),
        data::DistributedSamplerOptions{
            .rank = comm_->rank(), .world_size = comm_->world_size(), .seed = flags_.seed});
    data::DataLoader loader(
        data.train, sampler,
        {.batch_size = flags_.batch / comm_->world_size(), .workers = 1, .prefetch = 4},
        make_transform(flags_, *data.train, true));
    auto optimizer = make_optimizer(flags_, model);
    optim::OneCycleLR schedule(*optimizer, {.max_lr = flags_.lr,
                                            .total_steps = flags_.epochs * loader.size() + 1,
                                            .cycle_momentum = false});
    announce(model.get(), data);
    train::FitResult result =
        train::fit(model, *optimizer, schedule,
                   {.train = loader,
                    .train_images = sampler->size() * comm_->world_size(),
                    .batch_size = flags_.batch,
                    .test = data.test,
                    .test_transform = make_transform(flags_, *data.test, false)},
                   comm_,
                   {.epochs = flags_.epochs,
                    .sync = flags_.sync == "ddp" ? train::Sync::ddp : train::Sync::average,
                    .average_every = flags_.average_every,
                    .checkpoint_dir = flags_.checkpoint_dir,
                    .checkpoint_every = flags_.checkpoint_every,
                    .resume = flags_.resume,
                    .model_name = flags_.model,
                    .config = {{"--dataset", flags_.dataset},
                               {"--epochs", flags_.epochs},
                               {"--batch", flags_.batch},
                               {"--lr", flags_.lr},
                               {"--optimizer", flags_.optimizer},
                               {"--sync", flags_.sync},
                               {"--seed", static_cast<std::int64_t>(flags_.seed)},
                               {"--limit", flags_.limit}},
                    .out = out_});
    report(model, result);
    return result.stopped ? 143 : 0;
  }

  int evaluate(nn::AnyModule& model, const std::shared_ptr<data::ImageDataset>& test) {
    if (flags_.weights.empty())
      load_weights(train::checkpoint_path(flags_.checkpoint_dir).string(), model);
    train::Evaluation result =
        train::evaluate(model, test, make_transform(flags_, *test, false), *comm_);
    if (out_ != nullptr) {
      *out_ << flags_.model << " on " << flags_.dataset << ": " << result.correct << " of "
            << result.total << " correct, " << percent(result.accuracy()) << ", loss "
            << result.loss << "\n";
    }
    write_json({{"model", flags_.model},
                {"world_size", comm_->world_size()},
                {"test_accuracy", result.accuracy()},
                {"test_correct", result.correct},
                {"test_loss", result.loss},
                {"param_hash", io::param_hash(model.state_dict())}});
    return 0;
  }

  int predict(nn::AnyModule& model, const data::ImageDataset& like) {
    if (flags_.weights.empty())
      load_weights(train::checkpoint_path(flags_.checkpoint_dir).string(), model);
    Tensor image =
        fit_image(read_ppm(flags_.predict), like.channels(), like.height(), like.width());
    NoGradGuard no_grad;
    model.eval();
    const std::int64_t index = 0;
    Tensor probability =
        softmax(model(make_transform(flags_, like, false).apply(image, {&index, 1})), 1);
    ValuesAndIndices best = topk(probability, std::min<std::int64_t>(3, probability.size(1)));
    if (out_ == nullptr) return 0;
    *out_ << flags_.predict << ":";
    for (std::int64_t i = 0; i < best.values.size(1); ++i) {
      auto which = static_cast<std::size_t>(best.indices[0][i].item<std::int64_t>());
      *out_ << (i ? ", " : " ") << like.class_names().at(which) << " "
            << percent(best.values[0][i].item<double>());
    }
    *out_ << "\n";
    return 0;
  }

  void announce(nn::Module& model, const Datasets& data) {
    if (out_ == nullptr) return;
    *out_ << flags_.model << " (" << model.num_parameters() << " parameters) on " << flags_.dataset
          << ", " << data.train->size() << " training and " << data.test->size() << " test images; "
          << comm_->world_size() << (comm_->world_size() == 1 ? " rank" : " ranks") << " with "
          << threads_ << (threads_ == 1 ? " thread" : " threads") << ", batch " << flags_.batch
          << ", " << flags_.optimizer << ", --sync " << flags_.sync << std::endl;
  }

  void report(nn::AnyModule& model, const train::FitResult& result) {
    std::string hash = io::param_hash(model.state_dict());
    // Ranks that average now and then differ when they are stopped in between; rank 0's is reported.
    if (!result.stopped) comm_->agree("the hash of the trained model", hash);
    if (out_ != nullptr) {
      std::string directory = flags_.checkpoint_dir;
      if (result.stopped) {
        *out_ << "\nstopped by a signal; the checkpoint is " << result.checkpoint.string()
              << "\nto go on: the same command with --resume\n";
      } else {
        *out_ << "\nfinal test accuracy " << percent(result.test.accuracy()) << " ("
              << result.test.correct << " of " << result.test.total << "), best "
              << percent(result.best_test_accuracy) << ", "
              << static_cast<std::int64_t>(std::lround(result.img_per_s)) << " img/s\ncheckpoint "
              << result.checkpoint.string() << ", metrics " << directory << "/metrics.jsonl"
              << "\nwhat to try next: --epochs " << 3 * flags_.epochs
              << " for more accuracy, --model resnet18 for a larger net, "
              << "--predict IMAGE.ppm to ask this one\n";
      }
      out_->flush();
    }
    write_json({{"model", flags_.model},
                {"world_size", comm_->world_size()},
                {"epochs", result.epochs},
                {"test_accuracy", result.test.accuracy()},
                {"test_correct", result.test.correct},
                {"best_test_accuracy", result.best_test_accuracy},
                {"img_per_s", result.img_per_s},
                {"final_loss", result.final_loss},
                {"param_hash", hash},
                {"checkpoint", result.checkpoint.string()}});
  }

  void write_json(const nlohmann::json& result) const {
    if (flags_.json.empty() || comm_->rank() != 0) return;
    if (flags_.json == "-") {
      std::cout << result.dump() << std::endl;
      return;
    }
    std::ofstream out(flags_.json);
    out << result.dump(2) << "\n";
    out.flush();
    require<IoError>(out.good(), "--json ", flags_.json, ": cannot be written");
  }

  static std::string percent(double fraction) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << 100 * fraction << " %";
    return text.str();
  }

  const Flags& flags_;
  std::shared_ptr<dist::Communicator> comm_;
  std::ostream* out_;  // null on all ranks but the first
  int threads_;
};

}  // namespace

int run_classifier(int argc, char** argv, const std::string& description, Flags defaults) {
  return dist::run([&] {
    auto launcher = dist::read_launcher();
    Parsed parsed = parse_flags(argc, argv, description, defaults, launcher && launcher->rank != 0);
    if (parsed.exit_status) return *parsed.exit_status;
    auto comm = dist::init(
        {.communicator = {.all_reduce = dist::parse_all_reduce(parsed.flags.all_reduce)}});
    return Program(parsed.flags, comm)();
  });
}

}  // namespace examples
