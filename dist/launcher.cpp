#include "dist/launcher.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <utility>

#include "dist/fnv.h"
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
// srun sets these whatever MPI it speaks to. A batch script has a SLURM_PROCID, too, but no step.
constexpr Variables slurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"};

int number(const char* variable, const char* text) {
  require<CommError>(text != nullptr, "the launcher's environment is incomplete: ", variable,
                     " is not set");
  int value = -1;
  std::string_view view(text);
  auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  require<CommError>(error == std::errc() && end == view.data() + view.size() && value >= 0,
                     "the launcher's environment makes no sense: ", variable, " is \"", text, "\"");
  return value;
}

Launcher read(const Variables& v, const char* rank, const char* size) {
  Launcher launcher{concat(v.name, " (", v.size, ")"), number(v.rank, rank), number(v.size, size)};
  require<CommError>(launcher.rank < launcher.size,
                     "the launcher's environment makes no sense: ", v.rank, " is ", rank, " and ",
                     v.size, " is ", size);
  return launcher;
}

// The name of a socket is seen by all users of a machine, so what it is made of is not in it.
std::string number_of(std::initializer_list<const char*> words) {
  std::string text;
  for (const char* word : words) text += concat(word == nullptr ? "" : word, ' ');
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << fnv(text);
  return std::move(out).str();
}

// The key that Open MPI's mpirun has drawn. Without mpirun a variable of this name may be there,
// too, made of Slurm's number of the job by MPI_Init or by hand: that names no start, and is no
// secret.
const char* key_of_mpirun(const Getenv& getenv) {
  if (getenv("OMPI_MCA_ess_base_jobid") == nullptr) return nullptr;
  return getenv("OMPI_MCA_orte_precondition_transports");
}

std::string secret_in(const Getenv& getenv) {
  constexpr const char* variable = "RONDO_JOB_SECRET";
  const char* text = getenv(variable);
  const std::string_view secret(text == nullptr ? "" : text);
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
  require<CommError>(text == nullptr || (secret.size() >= 16 && secret.size() <= 200 &&
                                         std::ranges::all_of(secret, is_plain)),
                     variable, " is not 16 to 200 letters, digits and hyphens");
  const char* key = key_of_mpirun(getenv);
  return key != nullptr ? key : std::string(secret);  // mpirun may not pass on the other to all
}

// What it is called by its launcher. An mpirun inside a Slurm job is a launcher of its own.
void name_job(Launcher& launcher, const Getenv& getenv) {
  launcher.secret = secret_in(getenv);
  const auto is = [&](const char* variable, int value) {
    const char* text = getenv(variable);
    return text != nullptr && text == std::to_string(value);
  };
  const char* space = getenv("PMIX_NAMESPACE");
  const char* job = getenv("SLURM_JOB_ID");
  if (const char* key = key_of_mpirun(getenv)) {
    launcher.job = number_of({"ompi", key, space});
    launcher.on_one_machine = is("OMPI_COMM_WORLD_LOCAL_SIZE", launcher.size);
  } else if (job != nullptr && is(slurm.rank, launcher.rank) && is(slurm.size, launcher.size)) {
    launcher.job = number_of({"slurm", getenv("SLURM_CLUSTER_NAME"), job, getenv("SLURM_STEP_ID"),
                              getenv("SLURM_RESTART_COUNT")});
    launcher.on_one_machine = is("SLURM_STEP_NUM_NODES", 1);
  } else if (space != nullptr) {
    launcher.job = number_of({"pmix", space});
  }
}

std::optional<Launcher> read_ranks(const Getenv& getenv) {
  for (const Variables& v : known) {
    const char *rank = getenv(v.rank), *size = getenv(v.size);
    if (rank || size) return read(v, rank, size);
  }
  if (const char* size = getenv(slurm.size)) return read(slurm, getenv(slurm.rank), size);
  if (const char* rank = getenv("PMIX_RANK")) {
    return Launcher{"a PMIx launcher (PMIX_RANK)", number("PMIX_RANK", rank), Launcher::unknown};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Launcher> read_launcher(const Getenv& getenv) {
  std::optional<Launcher> launcher = read_ranks(getenv);
  if (launcher) name_job(*launcher, getenv);
  return launcher;
}

std::optional<Launcher> read_launcher() {
  return read_launcher([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace rondo::dist
