#pragma once
// Checkpoints: all that a training run needs to go on as if it had never stopped, in one file.
//
// The file is a safetensors file (io/safetensors.h), so any tool can look at the weights:
//
//   model.<name>                 parameters and buffers
//   optimizer.<number>.<name>    optim::OptimizerState
//   metadata "rondo.checkpoint"  everything that is not a tensor, as JSON, with a format version
//
// It is written atomically (io/atomic_file.h) and carries a checksum over every byte (Note [The
// checksum of a file]), so a reader gets the whole of what was saved or a sentence saying which
// file is damaged.

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
  Metadata config;    // what defines the model and the run: flags, choices made by measuring
  nn::StateDict model_state;
  std::optional<optim::OptimizerState> optimizer;
  std::optional<optim::ScheduleState> schedule;
  nn::StateDict communication;  // what compressed or delayed communication still owes

  /// Where the sampler stands: `step` batches of epoch `epoch` have been trained on.
  struct Position {
    std::int64_t epoch = 0, step = 0, global_step = 0;
    bool operator==(const Position&) const = default;
  } position;
  std::map<std::string, Generator::State> generators;  // "default" is default_generator()

  std::int64_t world_size = 1, threads = 1;
  Metadata metadata;  // anything else: accuracy so far, hashes, versions
};

/// Writes `checkpoint` to `path`; the file that was there is replaced at once or stays. Throws
/// IoError naming the file when it cannot be written.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Reads a checkpoint. Throws IoError naming the file when it is missing, cut short, damaged, no
/// checkpoint at all, or written by a newer rondo; and, unless `model` is empty, when it holds
/// another model. Takes at most 256 bytes of memory for each of the description's, besides what the
/// tensors take.
Checkpoint load_checkpoint(const std::string& path, const std::string& model = "");

/// The checkpoint in `directory` (*.safetensors, by what is inside, not by name) with the highest
/// global step, the younger file of equals; none when there is none. Weights without a description
/// are passed over. Throws IoError for a file that cannot be read: it may be the one that is
/// wanted.
std::optional<std::string> latest_checkpoint(const std::string& directory);

}  // namespace rondo::io
