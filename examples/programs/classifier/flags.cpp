// The flags of the classifier programs.
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
          "shortcut of resnet20 to resnet110 around a block with stride 2: a has no parameters, "
          "b is a 1x1 convolution",
          rd::flags::one_of({"a", "b"}));
  app.add("--grad-checkpointing", f.grad_checkpointing,
          "ResNets only: recompute each block's activations in backward instead of keeping "
          "them; less memory, a quarter to a third more time, the same results");
  app.add("--dataset", f.dataset, "which images", rd::flags::one_of(rd::data::dataset_names()));
  app.add("--data", f.data,
          "folder with the data (default: $RONDO_DATA or ~/.cache/rondo; missing data are "
          "downloaded)",
          not_empty());
  app.add("--epochs", f.epochs, "passes over the training images", whole_number(1, million));
  app.add("--batch", f.batch, "images in a batch, all ranks together",
          whole_number(1, most_images));
  app.add("--lr", f.lr, "the highest learning rate of the one-cycle schedule", not_negative);
  app.add("--weight-decay", f.weight_decay, "L2 penalty", not_negative);
  app.add("--optimizer", f.optimizer, "sgd (Nesterov 0.9), adam or adamw",
          rd::flags::one_of({"sgd", "adam", "adamw"}));
  app.add("--sync", f.sync,
          "ddp: average gradients in each step; average: average parameters every few steps",
          rd::flags::one_of({"ddp", "average"}));
  app.add("--average-every", f.average_every, "steps between averages", whole_number(1, million));
  app.add("--average-warmup", f.average_warmup,
          "average after each of the first so many steps (post-local SGD)", steps);
  app.add("--average-node-every", f.average_node_every,
          "steps between averages within a machine; 0: only averages over all ranks",
          whole_number(0, million));
  app.add("--outer-lr", f.outer_lr, "rate of the outer step on averages (DiLoCo: 0.7)", positive);
  app.add("--outer-momentum", f.outer_momentum, "Nesterov momentum of the outer step (DiLoCo: 0.9)",
          not_negative);
  app.add("--average-async", f.average_async,
          "average while the next steps run, and apply the result late; not with --outer-lr, "
          "--outer-momentum or --average-node-every");
  app.add("--compress", f.compress,
          "compress gradients: fp16, bf16, topk[:RATIO], powersgd[:RANK], sign or int8",
          not_empty());
  app.add("--zero", f.zero,
          "each rank keeps the optimizer state only for its part of the parameters");
  app.add("--accumulate", f.accumulate,
          "batches whose gradients are added for one step: the same as a batch so many times "
          "as large, except for batch norm, which sees each batch alone",
          whole_number(1, million));
  app.add(
      "--overlap,!--no-overlap", f.overlap,
      "send gradients while backward computes the next ones; with --no-overlap, after backward");
  app.add("--all-reduce", f.all_reduce,
          "how gradients are added: shared (memory, on one machine), mpi (MPI_Allreduce), nccl (on "
          "GPUs), or one of rondo's algorithms over messages; auto is nccl on GPUs, shared on one "
          "machine, and otherwise the algorithm that was measured to be the fastest",
          rd::flags::one_of({"auto", "shared", "direct", "tree", "doubling", "halving", "pairwise",
                             "ring", "hierarchical", "nccl", "mpi"}));
  app.add("--reproducible", f.reproducible,
          "cut each batch into so many shards, a power of two; results are bit-identical on "
          "1, 2, 4, ... ranks; 0: off",
          whole_number(0, 1 << 20));
  app.add("--trace", f.trace,
          "write a timeline of each step, of all ranks, to FILE; open it in chrome://tracing "
          "or ui.perfetto.dev",
          not_empty());
  app.add("--profile", f.profile,
          "profile the ops of some steps on rank 0: print a table, and write a timeline to FILE; "
          "open it in chrome://tracing or ui.perfetto.dev",
          not_empty());
  app.add("--profile-steps", f.profile_steps, "number of steps that --profile and --report record",
          whole_number(1, 10'000));
  app.add("--sync-bn", f.sync_bn, "batch norm with statistics over the images of all ranks");
  app.add("--timeout", f.timeout,
          "seconds that a rank waits for the others before it fails and names the missing one",
          rd::flags::number_that([](double v) { return v > 0 && v <= 1e6; },
                                 "above 0 and at most 1000000, which is eleven days"));
  app.add("--device", f.device,
          "cpu; cuda: each rank uses the GPU with its number on its machine; or cuda:N, for a "
          "single rank",
          not_empty());
  app.add("--amp", f.amp,
          "mixed precision: matrix products and convolutions in bf16, or on a GPU in f16; "
          "weights and sums stay f32",
          rd::flags::one_of({"bf16", "f16"}));
  app.add("--graph", f.graph, "on a GPU: capture the training step as one CUDA graph");
  app.add("--resident", f.resident,
          "on a GPU: keep the training images in its memory and augment them there");
  app.add("--mean", f.mean, "a,b,c: mean of each channel (values 0 to 1), which is subtracted",
          not_empty());
  app.add("--std", f.std, "a,b,c: standard deviation by which each channel is then divided",
          not_empty());
  app.add("--augment,!--no-augment", f.augment, "random crops and flips in training");
  app.add("--limit", f.limit, "use only so many training and test images; 0: all",
          whole_number(0, most_images));
  app.add("--resume", f.resume, "resume from the checkpoint in --checkpoint-dir");
  app.add("--checkpoint-dir", f.checkpoint_dir,
          "folder for checkpoints and metrics (default runs/MODEL-DATASET)", not_empty());
  app.add("--checkpoint-every", f.checkpoint_every,
          "steps between checkpoints; 0: at the end of an epoch", steps);
  app.add("--keep-checkpoints", f.keep_checkpoints,
          "number of newest checkpoints to keep, in addition to best.safetensors",
          whole_number(1, 1000));
  app.add("--async-checkpoints", f.async_checkpoints,
          "write checkpoints in the background, from a copy in memory");
  app.add("--weights", f.weights,
          "start from these weights: a checkpoint, a .safetensors file, or a file that PyTorch "
          "saved (.pth, .pt); ignored with --resume. With --eval, weights of a CIFAR ResNet "
          "determine --model and --dataset",
          not_empty());
  app.add("--eval", f.eval, "only measure the test accuracy (of --weights, or of the checkpoint)");
  app.add("--summary", f.summary,
          "print the model's layers, parameters and multiply-adds for one image, then end");
  app.add("--predict", f.predict, "print the classes of this image (PPM or PGM), then end",
          not_empty());
  app.add("--export-onnx", f.export_onnx,
          "write the model (of --weights, or of the checkpoint) to this ONNX file, then end; "
          "with --eval, also measure its accuracy",
          not_empty());
  app.add("--seed", f.seed, "seed of initialisation, shuffling and augmentation",
          whole_number(0, ~std::uint64_t{0}));
  app.add("--threads", f.threads, "OpenMP threads of each rank; 0: its share of the cores",
          whole_number(0, rd::dist::most_threads));
  app.add("--csv", f.csv, "write the metrics of each epoch to this CSV file", not_empty());
  app.add("--tensorboard", f.tensorboard,
          "write curves, parameter histograms and the model's graph to this folder", not_empty());
  app.add("--report", f.report,
          "write a report of the run to FILE.html: curves, confusion matrix, the images with "
          "the largest loss, time per op",
          not_empty());
  app.add("--progress", f.progress,
          "how an epoch's progress is shown: bar, a line that is rewritten once a second; lines, "
          "one for each tenth; none; auto is bar on a terminal without a launcher, otherwise lines",
          rd::flags::one_of({"auto", "bar", "lines", "none"}));
  app.add("--json", f.json, "write the results to this file; - is standard output", not_empty());
  if (const auto end = app.read(argc, argv)) {
    if (end->status == 0) return {f, end->text, std::nullopt};
    return {f, std::nullopt, end->text};
  }
  // Opening /dev/stdout would truncate a log that standard output is redirected to.
  if (f.json == "/dev/stdout") f.json = "-";
  if (f.checkpoint_dir.empty()) f.checkpoint_dir = "runs/" + f.model + "-" + f.dataset;
  return {f, std::nullopt, std::nullopt};
}

std::vector<std::pair<std::string, std::string>> listed(const Flags& f) {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const char* flag, const auto& value) {
    const std::string text = fmt::format("{}", value);
    all.emplace_back(rd::concat("--", flag), text.empty() ? "(none)" : text);
  };
  add("all-reduce", f.all_reduce);  // first: it decides how the ranks compare the other flags
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
                "\" is not a number");
  }
  rd::require(static_cast<std::int64_t>(values.size()) == channels, flag, " ", text, ": has ",
              values.size(), " numbers, but the images have ", channels, " channels");
  return values;
}

}  // namespace examples
