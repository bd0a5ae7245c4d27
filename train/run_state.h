#pragma once
// RunState: the checkpoint of a run on all ranks.
//
// Under DDP every rank has the same parameters and optimizer state, and rank 0 writes one file.
// With ZeRO each rank has a part of the optimizer's state; with parameter averaging each rank has
// its own weights and momentum between two averages. In these cases the ranks 1, 2, … first write
// their state to ranks/step<S>.epoch<E>.rank<R>.safetensors. Then rank 0 writes its file, which
// makes the checkpoint valid. Only then are older rank files removed. So, whenever the run is
// killed, the newest file of rank 0 and the rank files that belong to it exist and are complete.
// Values that must be equal on all ranks (position, metadata) are read only from rank 0's file.
//
// Files can also be damaged on disk, so the last few checkpoints are kept as
// kept/step<S>.epoch<E>.safetensors with their rank files. checkpoint.safetensors is a hard link to
// the newest, and best.safetensors a hard link to the one with the best accuracy. If the newest
// checkpoint is damaged, a resumed run uses the previous one.

#include <filesystem>

#include "dist/collectives/communicator.h"
#include "io/checkpoint.h"
#include "nn/module.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "train/background_write.h"

namespace rondo::train {

struct RunState {
  nn::Module& model;
  optim::Optimizer& optimizer;
  optim::LRSchedule& schedule;
  dist::Communicator& comm;
  std::string model_name;
  io::Metadata config;          // must be equal when the run is resumed
  bool state_per_rank = false;  // averaging, error feedback, ZeRO: ranks have state of their own
  std::int64_t keep = 2;        // the number of checkpoints to keep, at least 1
  /// The state of the communication. Set it before `save`, and before `restore`, which overwrites
  /// it.
  nn::StateDict communication = {};
  /// `save` copies the state and returns; a thread of rank 0 writes it, one checkpoint at a time.
  /// Needs memory for the copy. Has no effect with state_per_rank: the ranks must wait for each
  /// other, because the last of several files makes the checkpoint valid.
  bool is_async = false;
  BackgroundWrite writing = {};
  /// Averages of parameters, which `restore` overwrites.
  nn::StateDict ema = {};

  /// Writes DIR/checkpoint.safetensors, with `metadata`, which is equal on all ranks, and `own`,
  /// which is this rank's (under DDP, only rank 0's is stored). Two saves at the same position may
  /// differ only in `metadata`. `is_best`: also makes it best.safetensors. Collective. Throws
  /// IoError; if asynchronous, the next call or `finish` throws it.
  void save(const std::filesystem::path& directory, const io::Checkpoint::Position& position,
            const io::Metadata& metadata, const io::Metadata& own = {}, bool is_best = false);
  /// Waits until the last checkpoint is on the disk. Collective. Throws IoError.
  void finish();
  /// Makes DIR/best.safetensors a link to `path`.
  void mark_best(const std::filesystem::path& directory, const std::filesystem::path& path) const;
  struct Restored {
    io::Checkpoint checkpoint;
    std::filesystem::path path;
    std::string passed_over;  // the fault of the newest checkpoint, if an older one was used
  };
  /// Loads the newest complete checkpoint into the model, optimizer, schedule and random generator,
  /// and returns its other contents. Throws IoError naming the newest file if all checkpoints are
  /// missing or damaged, and Error naming the setting if the checkpoint is from a run with other
  /// settings. Collective.
  Restored restore(const std::filesystem::path& directory);

 private:
  io::Checkpoint read(const std::filesystem::path& path,
                      const std::filesystem::path& directory) const;
};

/// The message about a resumed run: "resuming from DIR/checkpoint.safetensors: epoch 3, batch 1".
std::string text_of(const RunState::Restored& restored, bool is_complete, bool stopped_early);

/// DIR/checkpoint.safetensors.
std::filesystem::path checkpoint_path(const std::filesystem::path& directory);

/// Moves the run in DIR, if there is one, to the first free DIR/previous-N, and returns that
/// folder. Never deletes anything there. Throws IoError.
std::filesystem::path move_run_aside(const std::filesystem::path& directory);

}  // namespace rondo::train
