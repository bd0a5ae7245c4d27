#pragma once
// RunFolder: the folder of a run's checkpoints, which only one run may use at a time, and the logs
// that are written during the run.

#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>

#include "dist/collectives/communicator.h"
#include "io/checkpoint.h"
#include "nn/module.h"
#include "tensor/lock_file.h"
#include "train/curve_writer.h"
#include "train/metrics.h"

namespace rondo::train {

/// An empty path means none.
struct RunPaths {
  std::filesystem::path folder;       // checkpoints, and metrics.jsonl
  std::filesystem::path csv;          // the metrics as a table, in addition
  std::filesystem::path tensorboard;  // a folder: the metrics as curves, the parameters' histograms
};

class RunFolder {
 public:
  /// `out`: where rank 0 prints what happened to an earlier run; null: nowhere.
  RunFolder(RunPaths paths, dist::Communicator& comm, std::ostream* out);

  /// Locks the folder. Throws IoError on all ranks if another run is using it, because two runs
  /// would mix their files. Changes nothing else. Creates a missing folder, unless `resume`.
  /// Collective.
  void lock(bool resume);

  /// Opens the logs. Call it after the first step has succeeded, or after the state of an earlier
  /// run was read; until then the files of an earlier run are unchanged. A new run moves them
  /// aside, so a user who forgot to resume can still do so. A resumed run drops the log entries
  /// after `position`, and the entry at it unless `tested`. `columns` are the columns of the
  /// metrics that a resumed run logs. Collective. Throws IoError on all ranks, also if a table has
  /// other columns.
  void open(bool resume, const io::Checkpoint::Position& position, bool tested,
            const Metrics& columns);
  bool is_open() const { return is_open_; }

  /// Writes the metrics on rank 0. Throws IoError.
  void log(const Metrics& metrics, nn::Module& model);
  /// Writes the model's graph for TensorBoard.
  void log_graph(nn::Module& model, const Tensor& input);

 private:
  // Only on rank 0.
  void set_aside();
  void open_logs(bool resume, const io::Checkpoint::Position& position, bool tested);

  RunPaths paths_;
  dist::Communicator& comm_;
  std::ostream* out_;
  bool is_open_ = false;
  std::optional<LockFile> lock_;  // rank 0's, for all ranks
  MetricsFile metrics_, table_;
  std::unique_ptr<CurveWriter> curves_;
};

}  // namespace rondo::train
