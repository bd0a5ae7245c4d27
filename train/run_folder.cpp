#include "train/run_folder.h"

#include <filesystem>

#include "tensor/printable.h"
#include "train/run_state.h"

namespace rondo::train {

RunFolder::RunFolder(RunPaths paths, dist::Communicator& comm, std::ostream* out)
    : paths_(std::move(paths)), comm_(comm), out_(out) {}

void RunFolder::lock(bool resume) {
  const std::filesystem::path& folder = paths_.folder;
  std::error_code error;
  std::string failure;
  const bool is_nothing = resume && !std::filesystem::exists(folder, error);
  if (comm_.rank() == 0) {
    try {
      if (!paths_.csv.empty()) MetricsFile::check(paths_.csv);
      if (!paths_.tensorboard.empty()) curve_format().check(paths_.tensorboard);
    } catch (const Error& e) {
      failure = e.what();
    }
  }
  if (comm_.rank() == 0 && failure.empty() && !folder.empty() &&
      !is_nothing) {  // otherwise reading its checkpoint fails with a better message
    try {
      std::filesystem::create_directories(folder, error);
      require<IoError>(!error, folder.string(), ": cannot be created: ", error.message());
      lock_.emplace((folder / "run.lock").string(),
                    concat("another run is writing to ", folder.string(),
                           "; use another folder for this run"));
    } catch (const IoError& e) {
      failure = e.what();
    }
  }
  failure = comm_.broadcast_bytes(failure, 0);
  require<IoError>(failure.empty(), failure);
}

void RunFolder::open(bool resume, const io::Checkpoint::Position& position, bool tested,
                     const Metrics& columns) {
  if (is_open_) return;
  is_open_ = true;
  std::string failure;
  if (!resume && !paths_.folder.empty()) comm_.barrier();  // all ranks have finished reading there
  if (comm_.rank() == 0) {
    try {
      if (!resume) set_aside();
      open_logs(resume, position, tested);
      table_.check_columns(columns);
    } catch (const Error& e) {
      failure = e.what();
    }
  }
  failure = comm_.broadcast_bytes(failure, 0);
  require<IoError>(failure.empty(), failure);
}

void RunFolder::open_logs(bool resume, const io::Checkpoint::Position& position, bool tested) {
  const std::int64_t kept = !resume ? -1 : position.epoch - (tested ? 0 : 1);
  if (!paths_.folder.empty()) {
    // The user chose the folder, not this file, so a link here may be another user's.
    const auto file = paths_.folder / "metrics.jsonl";
    std::error_code none;
    require<IoError>(!std::filesystem::is_symlink(file, none), file.string(),
                     ": cannot be written: it is a symbolic link; remove it");
    metrics_ = MetricsFile(file, kept);
  }
  if (!paths_.csv.empty()) table_ = MetricsFile(paths_.csv, kept);
  if (!paths_.tensorboard.empty()) {
    curves_ = curve_format().open(paths_.tensorboard,
                                  resume ? position.global_step + (tested ? 1 : 0) : 0);
  }
}

void RunFolder::set_aside() {
  if (!paths_.folder.empty()) {
    const std::filesystem::path previous = move_run_aside(paths_.folder);
    if (out_ != nullptr && !previous.empty())
      *out_ << "the run that was in " << printable(paths_.folder.string()) << " is now in "
            << printable(previous.string()) << std::endl;
  }
  std::error_code error;
  if (paths_.csv.empty() || std::filesystem::file_size(paths_.csv, error) == 0 || error) return;
  int n = 1;
  const auto numbered = [&] {
    return std::filesystem::path(paths_.csv) += concat(".previous-", n);
  };
  while (std::filesystem::exists(numbered())) ++n;
  std::filesystem::rename(paths_.csv, numbered(), error);
  require<IoError>(!error, paths_.csv.string(), ": cannot be renamed: ", error.message());
  if (out_ != nullptr)
    *out_ << "the table that was in " << printable(paths_.csv.string()) << " is now in "
          << printable(numbered().string()) << std::endl;
}

void RunFolder::log(const Metrics& metrics, nn::Module& model) {
  metrics_.write(metrics);
  table_.write(metrics);
  if (curves_) curves_->log(metrics, model);
}

void RunFolder::log_graph(nn::Module& model, const Tensor& input) {
  if (curves_) curves_->log_graph(model, input);
}

}  // namespace rondo::train
