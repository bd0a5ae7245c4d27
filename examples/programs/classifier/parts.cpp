#include "parts.h"

#include <fmt/format.h>

#include <iostream>

#include "extras/onnx/onnx.h"
#include "flags.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "io/weights.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "pretrained.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace examples {

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

/// Prints a line for each tenth of a download. Any rank may be the one that downloads.
rd::data::DownloadProgress report_downloads(std::ostream& out) {
  return [&out, file_before = std::string(), tenths = std::int64_t{0}](
             const std::string& file, std::int64_t received, std::int64_t total) mutable {
    if (total <= 0) return;
    if (file != file_before) tenths = -1;
    file_before = file;
    if (10 * received / total == tenths) return;
    tenths = 10 * received / total;
    out << "downloading " << rd::printable(file) << ": " << received / 1000000 << " of "
        << total / 1000000 << " MB" << std::endl;
  };
}

bool is_checkpoint(const std::string& path) {
  return rd::io::is_safetensors_file(path) &&
         rd::io::load_safetensors_metadata(path).contains("rondo.checkpoint");
}

/// Sets --mean and --std to `statistics` unless they were given.
void normalise_as(const rd::data::ImageStatistics& statistics, Flags& flags) {
  if (flags.mean.empty()) flags.mean = fmt::format("{}", fmt::join(statistics.mean, ","));
  if (flags.std.empty()) flags.std = fmt::format("{}", fmt::join(statistics.std, ","));
}

/// Lists other usual normalisations: a wrong guess costs many points of accuracy.
std::string advice_on_normalisation(const Flags& flags) {
  std::string text =
      "\nnote: this mean and std are a guess from the names of the layers; the file does not "
      "say how its training images were normalised. If the accuracy is lower than its authors "
      "report, try\n";
  for (const auto& [mean, std, used_by] : usual_normalisations()) {
    if (mean != flags.mean || std != flags.std)
      text += fmt::format("  --mean {} --std {}   ({})\n", mean, std, used_by);
  }
  text.pop_back();
  return text;
}

std::string text_in(const rd::io::Metadata& metadata, const std::string& name) {
  auto found = metadata.find(name);
  const auto* text = found == metadata.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text != nullptr ? *text : "";
}

}  // namespace

bool trains(const Flags& flags) {
  return !flags.eval && flags.predict.empty() && flags.export_onnx.empty();
}

Datasets open_data(const Flags& flags) {
  rd::data::OpenOptions options;
  options.download.data_dir = flags.data;
  options.download.progress = report_downloads(flags.json == "-" ? std::cerr : std::cout);
  if (flags.limit > 0) options.limit = flags.limit;
  bool train = trains(flags);
  return {train ? rd::data::open_dataset(flags.dataset, rd::data::Split::train, options) : nullptr,
          rd::data::open_dataset(flags.dataset, rd::data::Split::test, options)};
}

rd::data::ImageTransform make_transform(const Flags& flags, const rd::data::ImageDataset& images,
                                        bool training) {
  rd::data::ImageStatistics statistics = rd::data::statistics_of(flags.dataset);
  if (!flags.mean.empty())
    statistics.mean = parse_channels("--mean", flags.mean, images.channels());
  if (!flags.std.empty()) statistics.std = parse_channels("--std", flags.std, images.channels());
  for (float std : statistics.std)
    rd::require(std > 0, "--std ", flags.std, ": ", std, " is not above 0");
  std::vector<rd::data::ImageStep> steps;
  if (training && flags.augment) {
    steps.push_back(
        rd::data::RandomCrop{.height = images.height(), .width = images.width(), .padding = 4});
    steps.push_back(rd::data::RandomHorizontalFlip{});
  }
  steps.push_back(rd::data::ToFloat{});
  steps.push_back(rd::data::Normalize{statistics.mean, statistics.std});
  return rd::data::ImageTransform(steps, {.seed = flags.seed});
}

nn::AnyModule make_network(const Flags& flags, const rd::data::ImageDataset& images) {
  return nn::make_model(flags.model,
                        {.num_classes = images.num_classes(),
                         .in_channels = images.channels(),
                         .in_features = images.channels() * images.height() * images.width(),
                         .shortcut = flags.shortcut == "b" ? nn::Shortcut::b : nn::Shortcut::a,
                         .grad_checkpointing = flags.grad_checkpointing,
                         .image_size = images.height()});
}

Weights read_weights(const std::string& path, Flags& flags, bool decides) {
  Weights weights{.path = path, .state = {}, .dataset = {}, .description = {}, .lacks = {}};
  if (is_checkpoint(path)) {
    rd::io::Checkpoint checkpoint = rd::io::load_checkpoint(path, flags.model);
    if (flags.mean.empty()) flags.mean = text_in(checkpoint.config, "--mean");
    if (flags.std.empty()) flags.std = text_in(checkpoint.config, "--std");
    const std::string shortcut = text_in(checkpoint.config, "--shortcut");
    if (decides && !shortcut.empty()) flags.shortcut = shortcut;
    weights.dataset = text_in(checkpoint.config, "--dataset");
    if (!weights.dataset.empty() && weights.dataset != flags.dataset)
      normalise_as(rd::data::statistics_of(weights.dataset), flags);
    weights.state = std::move(checkpoint.model_state);
    return weights;
  }
  weights.state = rd::io::load_weights(path);
  auto [found, lacks] = recognise(weights.state);
  weights.lacks = lacks;
  if (!found) return weights;
  weights.state = std::move(found->state);
  if (!decides) return weights;
  flags.model = found->model;
  flags.shortcut = std::string(1, found->shortcut == nn::Shortcut::a ? 'a' : 'b');
  if (found->classes == 100 && flags.dataset == "cifar10") flags.dataset = "cifar100";
  const bool guesses = flags.mean.empty() || flags.std.empty();
  normalise_as(found->mean.empty() ? rd::data::statistics_of(flags.dataset)
                                   : rd::data::ImageStatistics{found->mean, found->std},
               flags);
  weights.description = fmt::format(
      "{}: {} of {} classes, shortcut {}, as {} names its layers; mean {}, std {}", path,
      found->model, found->classes, flags.shortcut, found->family, flags.mean, flags.std);
  if (guesses) weights.description += advice_on_normalisation(flags);
  return weights;
}

void load_weights(const Weights& weights, nn::Module& model) {
  try {
    model.load_state_dict(weights.state);
  } catch (const rd::Error& error) {
    throw rd::Error(
        rd::concat(weights.path,
                   weights.dataset.empty() ? "" : rd::concat(" (trained on ", weights.dataset, ")"),
                   weights.lacks.empty() ? ""
                                         : rd::concat(" is not a known CIFAR ResNet (",
                                                      weights.lacks, "), and does not fit --model"),
                   ": ", error.what()));
  }
}

void export_model(const Flags& flags, nn::Module& model, const rd::data::ImageDataset& images) {
  Flags with_statistics = flags;
  normalise_as(rd::data::statistics_of(flags.dataset), with_statistics);
  const Tensor example = rd::zeros({1, images.channels(), images.height(), images.width()},
                                   {.device = model.parameters().front().device()});
  rd::io::export_onnx(
      model, example, flags.export_onnx,
      {.metadata = {{"model", flags.model},
                    {"dataset", flags.dataset},
                    {"mean", with_statistics.mean},
                    {"std", with_statistics.std},
                    {"classes", fmt::format("{}", fmt::join(images.class_names(), ","))}}});
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

rd::io::Metadata shared_config(const Flags& flags, rd::io::Metadata basic) {
  const Flags usual = {};
  auto add = [&](const char* name, const auto& value, const auto& unset) {
    if (value != unset) basic[name] = value;
  };
  add("--accumulate", std::int64_t{flags.accumulate}, std::int64_t{usual.accumulate});
  add("--zero", std::int64_t{flags.zero}, std::int64_t{usual.zero});
  add("--average-warmup", flags.average_warmup, usual.average_warmup);
  add("--average-node-every", std::int64_t{flags.average_node_every},
      std::int64_t{usual.average_node_every});
  add("--outer-lr", flags.outer_lr, usual.outer_lr);
  add("--outer-momentum", flags.outer_momentum, usual.outer_momentum);
  add("--average-async", std::int64_t{flags.average_async}, std::int64_t{usual.average_async});
  add("--amp", flags.amp, usual.amp);
  add("--compress", flags.compress, usual.compress);
  add("--reproducible", std::int64_t{flags.reproducible}, std::int64_t{0});
  add("--shortcut", flags.shortcut, usual.shortcut);
  add("--sync-bn", std::int64_t{flags.sync_bn}, std::int64_t{usual.sync_bn});
  return basic;
}

}  // namespace examples
