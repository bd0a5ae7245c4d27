#include "train/metrics.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "tensor/error.h"

namespace rondo::train {

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t keep_epochs)
    : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  require<IoError>(!error, path_.parent_path().string(), ": cannot be created: ", error.message());
  std::string kept;
  if (std::ifstream old(path_); old) {
    for (std::string line; std::getline(old, line);) {
      auto json = nlohmann::json::parse(line, nullptr, false);
      // A line cut short by the end of the machine is dropped with those to be repeated.
      if (!json.is_object()) continue;
      auto epoch = json.find("epoch");
      require<IoError>(epoch != json.end() && epoch->is_number(), path_.string(),
                       ": has a line without an epoch, so it is not a run's metrics: ", line);
      if (epoch->get<double>() <= static_cast<double>(keep_epochs)) kept += line + '\n';
    }
  }
  io::AtomicFile file(path_.string());
  file.write(kept.data(), kept.size());
  file.commit();
}

void MetricsFile::write(const Metrics& metrics) {
  if (path_.empty()) return;
  std::ofstream file(path_, std::ios::app);
  file << nlohmann::json(metrics).dump() << std::endl;
  require<IoError>(file.good(), path_.string(), ": cannot be written");
}

}  // namespace rondo::train
