// The command line.
#include "flags.h"

#include <fmt/format.h>

#include "data/open.h"
#include "dist/collectives/communicator.h"
#include "dist/launch/threads.h"
#include "extras/command_line.h"
#include "nn/models/models.h"

namespace examples {

namespace rd = rondo;
namespace nn = rondo::nn;

Parsed parse_flags(int argc, char** argv, const std::string& description, const Flags& defaults) {
  using rd::flags::not_empty, rd::flags::whole_number;
  const rd::flags::Check positive = rd::flags::positive(), not_negative = rd::flags::not_negative();
  constexpr std::uint64_t million = 1'000'000, most_images = 1'000'000'000'000'000;
  const rd::flags::Check steps = whole_number(0, million * million);
  Flags f = defaults;
  rd::flags::CommandLine app(description);
  app.add("--model", f.model, "which network", rd::flags::one_of(nn::model_names()));
  app.add("--shortcut", f.shortcut,
          "of resnet20 to resnet110: what passes by a block that halves the plane; a has no "
          "parameters, b is a 1x1 convolution",
          rd::flags::one_of({"a", "b"}));
  app.add("--grad-checkpointing", f.grad_checkpointing,
          "of the ResNets: blocks compute their inside again in backward instead of keeping "
          "it; less memory, a quarter to a third more time, the same numbers");
  app.add("--dataset", f.dataset, "which images", rd::flags::one_of(rd::data::dataset_names()));
  app.add("--data", f.data,
          "folder with the data; else $RONDO_DATA or ~/.cache/rondo, else the network",
          not_empty());
  app.add("--epochs", f.epochs, "passes over the training images", whole_number(1, million));
  app.add("--batch", f.batch, "images in a batch, over all ranks", whole_number(1, most_images));
  app.add("--lr", f.lr, "the highest learning rate of the one-cycle schedule", not_negative);
  app.add("--weight-decay", f.weight_decay, "L2 penalty", not_negative);
  app.add("--optimizer", f.optimizer, "sgd (Nesterov 0.9), adam or adamw",
          rd::flags::one_of({"sgd", "adam", "adamw"}));
  app.add("--sync", f.sync, "average gradients in each step, or parameters now and then",
          rd::flags::one_of({"ddp", "average"}));
  app.add("--average-every", f.average_every, "steps between averages", whole_number(1, million));
  app.add("--average-warmup", f.average_warmup,
          "steps at first that are averaged one by one (post-local SGD)", steps);
  app.add("--average-node-every", f.average_node_every,
          "steps between averages within a machine; 0: only over all ranks",
          whole_number(0, million));
  app.add("--outer-lr", f.outer_lr, "rate of the outer step on averages (DiLoCo: 0.7)", positive);
  app.add("--outer-momentum", f.outer_momentum, "Nesterov momentum of the outer step (DiLoCo: 0.9)",
          not_negative);
  app.add("--average-async", f.average_async,
          "average while the next steps are computed, and fold the result in late; neither with "
          "--outer-lr and --outer-momentum nor with --average-node-every");
  app.add("--compress", f.compress,
          "how gradients travel: fp16, bf16, topk[:RATIO], powersgd[:RANK], sign or int8",
          not_empty());
  app.add("--zero", f.zero,
          "each rank keeps the optimizer's state of its part of the parameters alone");
  app.add("--accumulate", f.accumulate,
          "batches whose gradients are added up for a step: as one batch so many times as "
          "large, but for batch norm, which sees each by itself",
          whole_number(1, million));
  app.add("--overlap,!--no-overlap", f.overlap,
          "send gradients while backward computes the next ones; without, after it");
  app.add("--all-reduce", f.all_reduce,
          "who adds up gradients: the memory that ranks of one machine share, an algorithm of "
          "rondo's over messages, NCCL (on GPUs), or MPI's own; auto is shared memory where "
          "there is any, else what is measured to be the fastest, and NCCL on GPUs",
          rd::flags::one_of({"auto", "shared", "direct", "tree", "doubling", "halving", "pairwise",
                             "ring", "hierarchical", "nccl", "mpi"}));
  app.add("--reproducible", f.reproducible,
          "cut each batch into so many shards, a power of two, and end at the same bits on "
          "1, 2, 4, ... ranks; 0: off",
          whole_number(0, 1 << 20));
  app.add("--trace", f.trace,
          "write where the time of each step went, on all ranks, to FILE, which "
          "chrome://tracing and ui.perfetto.dev draw",
          not_empty());
  app.add("--profile", f.profile,
          "print which ops some steps' time goes to, and write each of them to FILE, which "
          "chrome://tracing and ui.perfetto.dev draw; of rank 0",
          not_empty());
  app.add("--profile-steps", f.profile_steps, "how many steps --profile and --report look at",
          whole_number(1, 10'000));
  app.add("--sync-bn", f.sync_bn, "batch norm by the statistics of all ranks' images");
  app.add("--timeout", f.timeout,
          "seconds that a rank waits for the others before it says which one is missing",
          rd::flags::number_that([](double v) { return v > 0 && v <= 1e6; },
                                 "above 0 and at most 1000000, which is eleven days"));
  app.add("--device", f.device,
          "cpu; cuda: each rank the GPU of its number on its machine; or cuda:N, for one "
          "rank",
          not_empty());
  app.add("--amp", f.amp,
          "mixed precision: products and convolutions in bf16, or on a GPU in f16; weights "
          "and sums stay f32",
          rd::flags::one_of({"bf16", "f16"}));
  app.add("--graph", f.graph, "on a GPU: capture the training step and launch it as one");
  app.add("--resident", f.resident,
          "on a GPU: keep the training images in its memory and augment them there");
  app.add("--mean", f.mean, "a,b,c: subtracted from the channels (of values 0 to 1)", not_empty());
  app.add("--std", f.std, "a,b,c: divides them", not_empty());
  app.add("--augment,!--no-augment", f.augment, "random crops and flips in training");
  app.add("--limit", f.limit, "only so many training and test images; 0: all",
          whole_number(0, most_images));
  app.add("--resume", f.resume, "go on from the checkpoint in --checkpoint-dir");
  app.add("--checkpoint-dir", f.checkpoint_dir,
          "where checkpoint and metrics go (default runs/MODEL-DATASET)", not_empty());
  app.add("--checkpoint-every", f.checkpoint_every,
          "steps between checkpoints; 0: at the end of an epoch", steps);
  app.add("--keep-checkpoints", f.keep_checkpoints,
          "how many of the newest stay, beside best.safetensors", whole_number(1, 1000));
  app.add("--async-checkpoints", f.async_checkpoints,
          "train on while a checkpoint is written, from a copy in memory");
  app.add("--weights", f.weights,
          "start from these weights: a checkpoint, a .safetensors file, or one that PyTorch "
          "saved (.pth, .pt); a run that is resumed has its own. With --eval a CIFAR ResNet's "
          "say themselves which model and data set they are for",
          not_empty());
  app.add("--eval", f.eval, "only measure the test accuracy (of --weights, or of the checkpoint)");
  app.add("--summary", f.summary,
          "print the model's layers, parameters and work for one image, then end");
  app.add("--predict", f.predict, "name the class of this image (PPM or PGM), then end",
          not_empty());
  app.add("--export-onnx", f.export_onnx,
          "write the model (of --weights, or of the checkpoint) to this file, for ONNX "
          "Runtime and others, then end; with --eval measure it as well",
          not_empty());
  app.add("--seed", f.seed, "of initialisation, shuffling and augmentation",
          whole_number(0, ~std::uint64_t{0}));
  app.add("--threads", f.threads, "OpenMP threads of each rank; 0: its share of the cores",
          whole_number(0, rd::dist::most_threads));
  app.add("--csv", f.csv, "write each epoch's metrics as a row of this table", not_empty());
  app.add("--tensorboard", f.tensorboard,
          "write curves, histograms of the parameters and the model's graph to this folder",
          not_empty());
  app.add("--report", f.report,
          "write the run as a page to FILE.html: curves, what is confused, the images that "
          "are judged worst, time by op",
          not_empty());
  app.add("--json", f.json, "write the result to this file; - is standard output", not_empty());
  if (const auto end = app.read(argc, argv)) {
    if (end->status == 0) return {f, end->text, std::nullopt};
    return {f, std::nullopt, end->text};
  }
  if (f.json == "/dev/stdout") f.json = "-";  // opened anew it would empty a redirected log
  if (f.checkpoint_dir.empty()) f.checkpoint_dir = "runs/" + f.model + "-" + f.dataset;
  return {f, std::nullopt, std::nullopt};
}

std::vector<std::pair<std::string, std::string>> listed(const Flags& f) {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const char* flag, const auto& value) {
    const std::string text = fmt::format("{}", value);
    all.emplace_back(rd::concat("--", flag), text.empty() ? "(none)" : text);
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

void agree_on_flags(const Flags& flags, rd::dist::Communicator& comm) {
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
    rd::require(used == part.size() && std::isfinite(values.back()), flag, " ", text, ": \"", part,
                "\" is no number");
  }
  rd::require(static_cast<std::int64_t>(values.size()) == channels, flag, " ", text, ": has ",
              values.size(), " numbers, the images have ", channels, " channels");
  return values;
}

}  // namespace examples
