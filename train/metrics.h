#pragma once
// MetricsFile: what a run measured, one JSON object a line (JSON Lines), readable while it runs:
//
//   {"epoch": 1, "train_loss": 1.52, "test_accuracy": 0.4812, "lr": 0.12, "img_per_s": 1034, …}

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace rondo::train {

using Metrics = std::map<std::string, double>;

class MetricsFile {
 public:
  /// No file: writes nothing.
  MetricsFile() = default;
  /// Opens `path`, making its folder, and keeping the lines of epochs up to `keep_epochs`: those
  /// after it belong to a run that was stopped and is now repeated. The old file is replaced at
  /// once or not at all. Throws IoError when it cannot be written, or is no metrics file.
  MetricsFile(std::filesystem::path path, std::int64_t keep_epochs);

  /// Appends a line and flushes it. Throws IoError naming the file when that fails.
  void write(const Metrics& metrics);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace rondo::train
