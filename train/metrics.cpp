#include "train/metrics.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tensor/error.h"

namespace rondo::train {

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t keep_epochs)
    : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  require<IoError>(!error, path_.parent_path().string(), ": cannot be created: ", error.message());
  std::vector<std::string> kept;
  if (std::ifstream old(path_); old) {
    for (std::string line; std::getline(old, line);) {
      auto json = nlohmann::json::parse(line, nullptr, false);
      // A line cut short by the end of the machine is dropped with those to be repeated.
      if (json.is_object() && json.value("epoch", std::int64_t{0}) <= keep_epochs)
        kept.push_back(line);
    }
  }
  std::ofstream file(path_);
  for (const std::string& line : kept) file << line << '\n';
  file.flush();
  require<IoError>(file.good(), path_.string(), ": cannot be written");
}

void MetricsFile::write(const Metrics& metrics) {
  if (path_.empty()) return;
  std::ofstream file(path_, std::ios::app);
  file << nlohmann::json(metrics).dump() << std::endl;
  require<IoError>(file.good(), path_.string(), ": cannot be written");
}

}  // namespace rondo::train
