#include "dist/launch/launcher.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

struct Variables {
  const char *name, *rank, *size;
};
constexpr Variables known[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"a PMI launcher", "PMI_RANK", "PMI_SIZE"},  // MPICH, Intel MPI, Cray
};
// srun sets these for any MPI. A batch script also has SLURM_PROCID, but is not a job step.
constexpr Variables slurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"};

int number(const char* variable, const char* text) {
  require<CommError>(text != nullptr, "the launcher's environment is incomplete: ", variable,
                     " is not set");
  int value = -1;
  std::string_view view(text);
  auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  require<CommError>(error == std::errc() && end == view.data() + view.size() && value >= 0,
                     "the launcher's environment is invalid: ", variable, " is \"", text, "\"");
  return value;
}

Launcher read(const Variables& v, const char* rank, const char* size) {
  Launcher launcher{concat(v.name, " (", v.size, ")"), number(v.rank, rank), number(v.size, size)};
  require<CommError>(launcher.rank < launcher.size,
                     "the launcher's environment is invalid: ", v.rank, " is ", rank, " and ",
                     v.size, " is ", size);
  return launcher;
}

}  // namespace

std::optional<Launcher> read_launcher(const Getenv& getenv) {
  for (const Variables& v : known) {
    const char *rank = getenv(v.rank), *size = getenv(v.size);
    if (rank || size) return read(v, rank, size);
  }
  if (const char* size = getenv(slurm.size)) return read(slurm, getenv(slurm.rank), size);
  if (const char* rank = getenv("PMIX_RANK")) {
    return Launcher{"a PMIx launcher (PMIX_RANK)", number("PMIX_RANK", rank), Launcher::unknown};
  }
  // torchrun starts processes that are to find each other by a port, not by MPI.
  const char *run = getenv("TORCHELASTIC_RUN_ID"), *size = getenv("WORLD_SIZE");
  require<CommError>(run == nullptr || size == nullptr || number("WORLD_SIZE", size) == 1,
                     "torchrun has started this program, but its processes cannot find each other; "
                     "start it with mpirun -np N");
  return std::nullopt;
}

std::optional<Launcher> read_launcher() {
  return read_launcher([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace rondo::dist
