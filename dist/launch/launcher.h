#pragma once
// What a launcher (mpirun, mpiexec, srun) wrote into this process's environment.

#include <functional>
#include <optional>
#include <string>

namespace rondo::dist {

struct Launcher {
  static constexpr int unknown = 0;
  std::string name;  // "Open MPI (OMPI_COMM_WORLD_SIZE)"
  int rank = 0;
  int size = 1;  // or unknown: PMIx tells it only to clients of its server, such as MPI
};

using Getenv = std::function<const char*(const char*)>;

/// Empty if no launcher's variables are set. Throws CommError that names the variable if they are
/// incomplete or invalid.
std::optional<Launcher> read_launcher(const Getenv& getenv);
std::optional<Launcher> read_launcher();

}  // namespace rondo::dist
