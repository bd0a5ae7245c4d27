#pragma once
// RunFolder: where a run keeps its checkpoints, whose alone it is while the run lasts, and the logs
// that are written as it goes.

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

/// Empty: none.
struct RunPaths {
  std::filesystem::path folder;       // checkpoints, and metrics.jsonl
  std::filesystem::path csv;          // the metrics as a table as well
  std::filesystem::path tensorboard;  // a folder: the metrics as curves, the parameters' histograms
};

class RunFolder {
 public:
  /// `out`: where rank 0 says what became of an earlier run; null: nowhere.
  RunFolder(RunPaths paths, dist::Communicator& comm, std::ostream* out);

  /// Two runs in one folder would mix their files: throws IoError on all ranks while another one is
  /// there. Touches nothing else. `resume`: the folder is not made where it is missing. Collective.
  void lock(bool resume);

  /// When the first step has succeeded, or the state of an earlier run been read: until then the
  /// files of an earlier run are as they were. A run that begins anew moves them aside, so that
  /// whoever forgot to resume can still do so; one that goes on from `position` drops what was
  /// logged after it, and at it unless it was `tested`. `columns` are those of the metrics to come.
  /// Collective. Throws IoError on all ranks, also for a table that has others.
  void open(bool resume, const io::Checkpoint::Position& position, bool tested,
            const Metrics& columns);
  bool is_open() const { return is_open_; }

  /// Rank 0 writes; throws IoError.
  void log(const Metrics& metrics, nn::Module& model);
  /// The model's graph, where TensorBoard looks for it.
  void log_graph(nn::Module& model, const Tensor& input);

 private:
  // Rank 0's.
  void set_aside();
  void open_logs(bool resume, const io::Checkpoint::Position& position, bool tested);

  RunPaths paths_;
  dist::Communicator& comm_;
  std::ostream* out_;
  bool is_open_ = false;
  std::optional<LockFile> lock_;  // rank 0's, for all
  MetricsFile metrics_, table_;
  std::unique_ptr<CurveWriter> curves_;
};

}  // namespace rondo::train
