// The command line. The one file of the examples that pays for CLI11's headers.
#include "flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "data/open.h"
#include "dist/communicator.h"
#include "dist/threads.h"
#include "nn/models/models.h"
#include "tools/flag_checks.h"

namespace examples {

using namespace rondo;

Parsed parse_flags(int argc, char** argv, const std::string& description, const Flags& defaults) {
  using flags::not_empty, flags::whole_number;
  const CLI::Validator positive = flags::positive(), not_negative = flags::not_negative();
  constexpr std::uint64_t million = 1'000'000, most_images = 1'000'000'000'000'000;
  const CLI::Validator steps = whole_number(0, million * million);
  Flags f = defaults;
  CLI::App app{description};
  app.option_defaults()->always_capture_default();
  // A later flag overrides an earlier one, so that scripts can have defaults.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--model", f.model, "which network")->check(CLI::IsMember(nn::model_names()));
  app.add_option("--shortcut", f.shortcut,
                 "of resnet20 to resnet110: what passes by a block that halves the plane; a has no "
                 "parameters, b is a 1x1 convolution")
      ->check(CLI::IsMember({"a", "b"}));
  app.add_flag("--grad-checkpointing", f.grad_checkpointing,
               "of the ResNets: blocks compute their inside again in backward instead of keeping "
               "it; less memory, a quarter to a third more time, the same numbers");
  app.add_option("--dataset", f.dataset, "which images")
      ->check(CLI::IsMember(data::dataset_names()));
  app.add_option("--data", f.data, "folder with the data; else $RONDO_DATA, the cache, the network")
      ->check(not_empty());
  app.add_option("--epochs", f.epochs, "passes over the training images")
      ->check(whole_number(1, million));
  app.add_option("--batch", f.batch, "images in a batch, over all ranks")
      ->check(whole_number(1, most_images));
  app.add_option("--lr", f.lr, "the highest learning rate of the one-cycle schedule")
      ->check(not_negative);
  app.add_option("--weight-decay", f.weight_decay, "L2 penalty")->check(not_negative);
  app.add_option("--optimizer", f.optimizer, "sgd (Nesterov 0.9), adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  app.add_option("--sync", f.sync, "average gradients in each step, or parameters now and then")
      ->check(CLI::IsMember({"ddp", "average"}));
  app.add_option("--average-every", f.average_every, "steps between averages")
      ->check(whole_number(1, million));
  app.add_option("--average-warmup", f.average_warmup,
                 "steps at first that are averaged one by one (post-local SGD)")
      ->check(steps);
  app.add_option("--average-node-every", f.average_node_every,
                 "steps between averages within a machine; 0: only over all ranks")
      ->check(whole_number(0, million));
  app.add_option("--outer-lr", f.outer_lr, "rate of the outer step on averages (DiLoCo: 0.7)")
      ->check(positive);
  app.add_option("--outer-momentum", f.outer_momentum,
                 "Nesterov momentum of the outer step (DiLoCo: 0.9)")
      ->check(not_negative);
  app.add_flag(
      "--average-async", f.average_async,
      "average while the next steps are computed, and fold the result in late; neither with "
      "--outer-lr and --outer-momentum nor with --average-node-every");
  app.add_option("--compress", f.compress,
                 "how gradients travel: fp16, bf16, topk[:RATIO], powersgd[:RANK], sign or int8")
      ->check(not_empty());
  app.add_flag("--zero", f.zero,
               "each rank keeps the optimizer's state of its part of the parameters alone");
  app.add_option("--accumulate", f.accumulate,
                 "batches whose gradients are added up for a step: as one batch so many times as "
                 "large, but for batch norm, which sees each by itself")
      ->check(whole_number(1, million));
  app.add_flag("--overlap,!--no-overlap", f.overlap,
               "send gradients while backward computes the next ones; without, after it");
  app.add_option(
         "--all-reduce", f.all_reduce,
         "who adds up gradients: the memory that ranks of one machine share, an algorithm of "
         "rondo's over messages, NCCL (on GPUs), or MPI's own; auto is shared memory where "
         "there is any, else what is measured to be the fastest, and NCCL on GPUs")
      ->check(CLI::IsMember({"auto", "shared", "direct", "tree", "doubling", "halving", "pairwise",
                             "ring", "hierarchical", "nccl", "mpi"}));
  app.add_option("--reproducible", f.reproducible,
                 "cut each batch into so many shards, a power of two, and end at the same bits on "
                 "1, 2, 4, ... ranks; 0: off")
      ->check(whole_number(0, 1 << 20));
  app.add_option("--trace", f.trace,
                 "write where the time of each step went, on all ranks, to FILE, which "
                 "chrome://tracing and ui.perfetto.dev draw")
      ->check(not_empty());
  app.add_option("--profile", f.profile,
                 "print which ops some steps' time goes to, and write each of them to FILE, which "
                 "chrome://tracing and ui.perfetto.dev draw; of rank 0")
      ->check(not_empty());
  app.add_option("--profile-steps", f.profile_steps,
                 "how many steps --profile and --report look at")
      ->check(whole_number(1, 10'000));
  app.add_flag("--sync-bn", f.sync_bn, "batch norm by the statistics of all ranks' images");
  app.add_option("--timeout", f.timeout,
                 "seconds that a rank waits for the others before it says which one is missing")
      ->check(flags::number_that([](double v) { return v > 0 && v <= 1e6; },
                                 "above 0 and at most 1000000, which is eleven days"));
  app.add_option("--device", f.device,
                 "cpu; cuda: each rank the GPU of its number on its machine; or cuda:N, for one "
                 "rank")
      ->check(not_empty());
  app.add_option("--amp", f.amp,
                 "mixed precision: products and convolutions in bf16, or on a GPU in f16; weights "
                 "and sums stay f32")
      ->check(CLI::IsMember({"bf16", "f16"}));
  app.add_flag("--graph", f.graph, "on a GPU: capture the training step and launch it as one");
  app.add_flag("--resident", f.resident,
               "on a GPU: keep the training images in its memory and augment them there");
  app.add_option("--mean", f.mean, "a,b,c: subtracted from the channels (of values 0 to 1)")
      ->check(not_empty());
  app.add_option("--std", f.std, "a,b,c: divides them")->check(not_empty());
  app.add_flag("--augment,!--no-augment", f.augment, "random crops and flips in training");
  app.add_option("--limit", f.limit, "only so many training and test images; 0: all")
      ->check(whole_number(0, most_images));
  app.add_flag("--resume", f.resume, "go on from the checkpoint in --checkpoint-dir");
  app.add_option("--checkpoint-dir", f.checkpoint_dir,
                 "where checkpoint and metrics go (default runs/MODEL-DATASET)")
      ->check(not_empty());
  app.add_option("--checkpoint-every", f.checkpoint_every,
                 "steps between checkpoints; 0: at the end of an epoch")
      ->check(steps);
  app.add_option("--keep-checkpoints", f.keep_checkpoints,
                 "how many of the newest stay, beside best.safetensors")
      ->check(whole_number(1, 1000));
  app.add_flag("--async-checkpoints", f.async_checkpoints,
               "train on while a checkpoint is written, from a copy in memory");
  app.add_option(
         "--weights", f.weights,
         "start from these weights: a checkpoint, a .safetensors file, or one that PyTorch "
         "saved (.pth, .pt); a run that is resumed has its own. With --eval a CIFAR ResNet's "
         "say themselves which model and data set they are for")
      ->check(not_empty());
  app.add_flag("--eval", f.eval,
               "only measure the test accuracy (of --weights, or of the checkpoint)");
  app.add_flag("--summary", f.summary,
               "print the model's layers, parameters and work for one image, then end");
  app.add_option("--predict", f.predict, "name the class of this image (PPM or PGM), then end")
      ->check(not_empty());
  app.add_option("--export-onnx", f.export_onnx,
                 "write the model (of --weights, or of the checkpoint) to this file, for ONNX "
                 "Runtime and others, then end; with --eval measure it as well")
      ->check(not_empty());
  app.add_option("--seed", f.seed, "of initialisation, shuffling and augmentation")
      ->check(whole_number(0, ~std::uint64_t{0}));
  app.add_option("--threads", f.threads, "OpenMP threads of each rank; 0: its share of the cores")
      ->check(whole_number(0, dist::most_threads));
  app.add_option("--csv", f.csv, "write each epoch's metrics as a row of this table")
      ->check(not_empty());
  app.add_option("--tensorboard", f.tensorboard,
                 "write curves, histograms of the parameters and the model's graph to this folder")
      ->check(not_empty());
  app.add_option("--report", f.report,
                 "write the run as a page to FILE.html: curves, what is confused, the images that "
                 "are judged worst, time by op")
      ->check(not_empty());
  app.add_option("--json", f.json, "write the result to this file; - is standard output")
      ->check(not_empty());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {f, app.help(), std::nullopt};
    return {f, std::nullopt, concat(error.what(), "; --help lists the flags")};
  }
  if (f.json == "/dev/stdout") f.json = "-";  // opened anew it would empty a redirected log
  if (f.checkpoint_dir.empty()) f.checkpoint_dir = "runs/" + f.model + "-" + f.dataset;
  return {f, std::nullopt, std::nullopt};
}

std::vector<std::pair<std::string, std::string>> listed(const Flags& f) {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const char* flag, const auto& value) {
    const std::string text = fmt::format("{}", value);
    all.emplace_back(concat("--", flag), text.empty() ? "(none)" : text);
  };
  add("all-reduce", f.all_reduce);  // first: the others' collectives depend on it
  add("model", f.model);
  add("dataset", f.dataset);
  add("shortcut", f.shortcut);
  add("grad-checkpointing", f.grad_checkpointing);
  add("epochs", f.epochs);
  add("batch", f.batch);
  add("lr", f.lr);
  add("weight-decay", f.weight_decay);
  add("optimizer", f.optimizer);
  add("sync", f.sync);
  add("average-every", f.average_every);
  add("average-warmup", f.average_warmup);
  add("average-node-every", f.average_node_every);
  add("outer-lr", f.outer_lr);
  add("outer-momentum", f.outer_momentum);
  add("average-async", f.average_async);
  add("compress", f.compress);
  add("zero", f.zero);
  add("accumulate", f.accumulate);
  add("overlap", f.overlap);
  add("sync-bn", f.sync_bn);
  add("reproducible", f.reproducible);
  add("amp", f.amp);
  add("graph", f.graph);
  add("resident", f.resident);
  add("mean", f.mean);
  add("std", f.std);
  add("augment", f.augment);
  add("limit", f.limit);
  add("resume", f.resume);
  add("checkpoint-dir", f.checkpoint_dir);
  add("checkpoint-every", f.checkpoint_every);
  add("keep-checkpoints", f.keep_checkpoints);
  add("async-checkpoints", f.async_checkpoints);
  add("weights", f.weights);
  add("eval", f.eval);
  add("summary", f.summary);
  add("predict", f.predict);
  add("export-onnx", f.export_onnx);
  add("seed", f.seed);
  add("json", f.json);
  add("csv", f.csv);
  add("tensorboard", f.tensorboard);
  add("trace", f.trace);
  add("profile", f.profile);
  add("profile-steps", f.profile_steps);
  add("report", f.report);
  return all;
}

void agree_on_flags(const Flags& flags, dist::Communicator& comm) {
  for (const auto& [flag, value] : listed(flags)) comm.agree(flag, value);
}

std::vector<float> parse_channels(const std::string& flag, const std::string& text,
                                  std::int64_t channels) {
  std::vector<float> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    std::size_t used = 0;
    try {
      values.push_back(std::stof(part, &used));
    } catch (const std::exception&) {
      used = std::string::npos;
    }
    require(used == part.size() && std::isfinite(values.back()), flag, " ", text, ": \"", part,
            "\" is no number");
  }
  require(static_cast<std::int64_t>(values.size()) == channels, flag, " ", text, ": has ",
          values.size(), " numbers, the images have ", channels, " channels");
  return values;
}

}  // namespace examples
