#pragma once
// Checkpoints: one file with everything that a training run needs to resume bit-identically.
//
// The file is a safetensors file (io/safetensors.h), so any tool can look at the weights:
//
//   model.<name>                 parameters and buffers
//   optimizer.<number>.<name>    optim::OptimizerState
//   ema.<name>                   averages of parameters, if there are any
//   metadata "rondo.checkpoint"  everything that is not a tensor, as JSON, with a format version
//
// The file is written atomically (io/atomic_file.h) and has a checksum over every byte (Note [The
// checksum of a file]). A reader gets exactly what was saved, or an error that names the damaged
// file.
//
// Read next: dist/data_parallel/ddp.h.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "nn/module.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "tensor/random.h"

namespace rondo::io {

using MetadataValue = std::variant<std::int64_t, double, std::string>;
using Metadata = std::map<std::string, MetadataValue>;

struct Checkpoint {
  std::string model;  // "resnet20"
  Metadata config;    // what defines the model and the run: flags, choices that were measured
  nn::StateDict model_state;
  std::optional<optim::OptimizerState> optimizer;
  std::optional<optim::ScheduleState> schedule;
  nn::StateDict communication;  // state of compressed or delayed communication, such as residuals
  nn::StateDict ema;            // averages of parameters

  /// The position of the sampler: `step` batches of epoch `epoch` have been trained on.
  struct Position {
    std::int64_t epoch = 0, step = 0, global_step = 0;
    bool operator==(const Position&) const = default;
  } position;
  std::map<std::string, Generator::State> generators;  // "default" is default_generator()

  std::int64_t world_size = 1, threads = 1;
  Metadata metadata;  // anything else: accuracy so far, hashes, versions
};

/// Writes `checkpoint` to `path`. Replaces an existing file atomically. Throws IoError naming the
/// file if it cannot be written; the existing file then stays.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Reads a checkpoint. Throws IoError naming the file if it is missing, truncated, damaged, not a
/// checkpoint, or written by a newer version of rondo. If `model` is not empty, also throws if the
/// checkpoint is of another model. Uses at most 256 bytes of memory for each byte of the
/// description, in addition to the tensors.
Checkpoint load_checkpoint(const std::string& path, const std::string& model = "");

/// The checkpoint in `directory` with the highest global step, or nullopt. If
/// several have the same step, the newest file. Considers all *.safetensors files, and recognises a
/// checkpoint by its contents, not by its name; weights without a description are skipped. Throws
/// IoError for a file that cannot be read, because it may be the wanted one.
std::optional<std::string> latest_checkpoint(const std::string& directory);

}  // namespace rondo::io
