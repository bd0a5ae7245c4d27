#pragma once
// RunState: a run's checkpoint over all ranks.
//
// Under DDP every rank has the same parameters and optimizer state, and rank 0 writes one file.
// With ZeRO each rank has a part of the optimizer's state, and under parameter averaging each rank
// has its own weights and momentum between two averages: ranks 1, 2, … then write theirs first, to
// ranks/step<S>.epoch<E>.rank<R>.safetensors, rank 0's file comes last and is what makes the
// checkpoint valid, and only then are older rank files removed. Whenever the run is killed, the
// newest rank 0 file and the rank files that belong to it are there, whole. What all ranks must
// agree on (position, metadata) is read from rank 0's file alone.
//
// Disks forget, too. So the last few checkpoints are kept, as kept/step<S>.epoch<E>.safetensors
// with their rank files; checkpoint.safetensors is another name (a hard link) of the newest, and
// best.safetensors of the one with the best accuracy. A run whose newest checkpoint is damaged goes
// on from the one before.

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
  io::Metadata config;          // what must be the same when the run goes on
  bool state_per_rank = false;  // averaging, error feedback, ZeRO: ranks have state of their own
  std::int64_t keep = 2;        // how many checkpoints, at least 1
  /// What communication must remember: set before `save`, and before `restore`, which fills it.
  nn::StateDict communication = {};
  /// `save` copies what there is to save and returns; a thread of rank 0 writes it, one checkpoint
  /// at a time. Costs memory for the copy. Not with state_per_rank: there the last of several
  /// ranks' files makes a checkpoint, for which they must wait for each other.
  bool is_async = false;
  BackgroundWrite writing = {};

  /// Writes DIR/checkpoint.safetensors. Kept with it are `metadata`, which is the same on all
  /// ranks, and what is this rank's `own`; under DDP rank 0's. Two saves at one position may differ
  /// in `metadata` only. `is_best`: it is best.safetensors as well. Collective. Throws IoError; if
  /// it is asynchronous, the next call or `finish` does.
  void save(const std::filesystem::path& directory, const io::Checkpoint::Position& position,
            const io::Metadata& metadata, const io::Metadata& own = {}, bool is_best = false);
  /// Until the last checkpoint is on the disk. Collective. Throws IoError.
  void finish();
  /// DIR/best.safetensors is `path` from now on.
  void mark_best(const std::filesystem::path& directory, const std::filesystem::path& path) const;
  struct Restored {
    io::Checkpoint checkpoint;
    std::filesystem::path path;
    std::string passed_over;  // what is wrong with the newest, if this is not the newest
  };
  /// Reads the newest that is whole back into model, optimizer, schedule and the random generator,
  /// and returns what else it held. Throws IoError naming the newest file when all are missing or
  /// damaged, and Error naming the setting when it belongs to a run with other settings.
  /// Collective.
  Restored restore(const std::filesystem::path& directory);

 private:
  io::Checkpoint read(const std::filesystem::path& path,
                      const std::filesystem::path& directory) const;
  void restore_communication(const nn::StateDict& saved, const std::string& path);
};

/// What a run says that was resumed: "going on from DIR/checkpoint.safetensors: epoch 3, batch 1".
std::string text_of(const RunState::Restored& restored, bool is_complete, bool stopped_early);
/// " (4 ranks then, 2 now: the last digits will differ)"; empty: they will not.
std::string differences(const RunState::Restored& restored, const dist::Communicator& comm);

/// DIR/checkpoint.safetensors.
std::filesystem::path checkpoint_path(const std::filesystem::path& directory);

/// Moves the run that lies in DIR, if one does, to the first free DIR/previous-N and returns that
/// folder. Nothing is ever deleted there. Throws IoError.
std::filesystem::path move_run_aside(const std::filesystem::path& directory);

}  // namespace rondo::train
