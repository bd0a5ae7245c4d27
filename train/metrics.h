#pragma once
// MetricsFile: the metrics of a run, one line per epoch, readable while the run continues. A file
// named *.csv is a table with a header; any other name gives one JSON object per line (JSON Lines):
//
//   epoch,step,lr,test_accuracy,…        {"epoch": 1, "lr": 0.12, "step": 390, …}
//   1,390,0.12,0.4812,…

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo::train {

using Metrics = std::map<std::string, double>;

class MetricsFile {
 public:
  /// No file; writes nothing.
  MetricsFile() = default;
  /// Opens `path` and creates its folder if needed. Keeps the lines of epochs up to `keep_epochs`;
  /// later lines belong to a stopped run, which now repeats these epochs. Replaces the old file
  /// atomically. Throws IoError if the file cannot be written or is not a metrics file, or if a
  /// line to be kept is not a row of a run and would be lost.
  MetricsFile(std::string path, std::int64_t keep_epochs);

  /// Throws the errors that the constructor would throw for a new run, if they can be detected
  /// without writing.
  static void check(const std::string& path);

  /// Throws IoError if the columns of a table are not those of `metrics`.
  void check_columns(const Metrics& metrics) const;
  /// Appends a line and flushes it. `metrics` needs an epoch; the columns of a table are those of
  /// its first line. Throws IoError naming the file if that fails.
  void write(const Metrics& metrics);
  const std::string& path() const { return path_; }

 private:
  bool is_table() const;
  /// The lines of the existing file up to that epoch, after the header if it is a table.
  std::string read(std::int64_t keep_epochs);
  /// The header of the existing table; empty: it has none yet.
  std::string header_;
  std::string path_;
  std::string file_;  // path_ without symbolic links
};

/// The rows of a metrics file of either kind; if an epoch appears twice, the last one. Skips
/// incomplete lines, which a killed run can leave. Throws IoError if the file cannot be read.
std::vector<Metrics> read_metrics(const std::string& path);

}  // namespace rondo::train
