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
  int size = 1;  // or unknown: PMIx tells only those who ask its server, which MPI does
};

using Getenv = std::function<const char*(const char*)>;

/// Nothing when no launcher's variables are set. Throws CommError that names the variable when they
/// are incomplete or make no sense.
std::optional<Launcher> read_launcher(const Getenv& getenv);
std::optional<Launcher> read_launcher();

}  // namespace rondo::dist
