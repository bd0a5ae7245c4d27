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
  /// What all ranks of this start of the program call it, and no others: a number of 16 digits,
  /// made of Open MPI's key, or of Slurm's numbers of job, step and restart, or of PMIx's
  /// namespace. Empty where there is nothing of that (Hydra).
  std::string job = {};
  /// What only its processes know: the key that mpirun of Open MPI has drawn
  /// (OMPI_MCA_orte_precondition_transports); without, what whoever starts the ranks has put into
  /// RONDO_JOB_SECRET. Empty: nothing.
  std::string secret = {};
  bool on_one_machine = false;  // all of its ranks, as far as the launcher says
};

using Getenv = std::function<const char*(const char*)>;

/// Nothing when no launcher's variables are set. Throws CommError naming the variable when they are
/// incomplete or make no sense, or RONDO_JOB_SECRET is not 16 to 200 letters, digits and hyphens.
std::optional<Launcher> read_launcher(const Getenv& getenv);
std::optional<Launcher> read_launcher();

}  // namespace rondo::dist
