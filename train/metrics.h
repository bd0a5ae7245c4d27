#pragma once
// MetricsFile: what a run measured, a line an epoch, readable while it runs. Named *.csv it is a
// table with a header, else one JSON object a line (JSON Lines):
//
//   epoch,step,lr,test_accuracy,…        {"epoch": 1, "lr": 0.12, "step": 390, …}
//   1,390,0.12,0.4812,…

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace rondo::train {

using Metrics = std::map<std::string, double>;

class MetricsFile {
 public:
  /// No file: writes nothing.
  MetricsFile() = default;
  /// Opens `path`, making its folder, and keeping the lines of epochs up to `keep_epochs`: those
  /// after it belong to a run that was stopped and is now repeated. The old file is replaced at
  /// once or not at all. Throws IoError when it cannot be written, is no metrics file, or has,
  /// among lines to be kept, one that is none of a run's and would be lost.
  MetricsFile(std::filesystem::path path, std::int64_t keep_epochs);

  /// Throws what the constructor would of a new run, where that can be told without writing.
  static void check(const std::filesystem::path& path);

  /// Throws IoError where a table's columns are not those of `metrics`.
  void check_columns(const Metrics& metrics) const;
  /// Appends a line and flushes it. `metrics` has an epoch, and a table's columns are those of its
  /// first line. Throws IoError naming the file when that fails.
  void write(const Metrics& metrics);
  const std::filesystem::path& path() const { return path_; }

 private:
  bool is_table() const { return path_.extension() == ".csv"; }
  /// The lines of the file that is there up to that epoch, and a table's header.
  std::string read(std::int64_t keep_epochs);
  /// A table's, from the file that is there; empty: it has none yet.
  std::string header_;
  std::filesystem::path path_;
  std::string file_;  // path_ without symbolic links
};

/// The rows of such a file, of either kind; of an epoch that is there twice the last. Lines that a
/// killed run left half-written are passed over. Throws IoError when it cannot be read.
std::vector<Metrics> read_metrics(const std::filesystem::path& path);

}  // namespace rondo::train
