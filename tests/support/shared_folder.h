#pragma once
// A folder for the ranks that mpirun has started.

#include <unistd.h>

#include <filesystem>

#include "support/mpi_main.h"
#include "tensor/error.h"

namespace rondo::test {

/// One folder for all ranks, removed by rank 0.
class SharedFolder {
 public:
  SharedFolder()
      : path_(std::filesystem::temp_directory_path() / concat("rondo-ranks-", getppid())) {
    clear();
  }
  ~SharedFolder() { clear(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  void clear() {
    world()->barrier();
    if (world()->rank() == 0) std::filesystem::remove_all(path_);
    world()->barrier();
  }
  std::filesystem::path path_;
};

}  // namespace rondo::test
