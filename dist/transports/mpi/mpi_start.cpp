#include "dist/transports/mpi/mpi_start.h"

#include <mpi.h>

#include <cstdlib>
#include <utility>

#include "dist/failure/deadline.h"
#include "dist/launch/world.h"
#include "tensor/error.h"
#include "tensor/home_process.h"

namespace rondo::dist {
namespace {

bool has_started = false;  // under the mutex

void finalize_at_exit() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
  // The limit is longer than at the start: a rank may work alone for a while after the others have
  // ended. The Deadline comes before the lock, since a call that never returns may hold the lock.
  const Deadline deadline("MPI_Finalize", std::chrono::hours(1), "some rank has not called it",
                          world().watch);
  std::lock_guard lock(mpi_mutex());
  MPI_Finalize();
}

// Between machines without a faster network, Open MPI sends messages over TCP. By default it writes
// a message above 64 KiB in one piece ("put"). The few bytes that allow the peer to start its own
// message wait behind this piece, so both directions take turns, and a ring gets half of the link's
// speed. With fragments ("send", 1, from memory in place, 8) both directions share the link: an
// all-reduce of 4 MiB at 1 Gbit/s takes 35 ms instead of 60 (docs/results/ranks.md). mpirun's --mca
// btl_tcp_flags and the variable itself have precedence. A file of Open MPI's parameters does not,
// since variables override it.
void let_tcp_go_both_ways() { setenv("OMPI_MCA_btl_tcp_flags", "9", /*overwrite=*/0); }

/// Whether mpirun of Open MPI has started all ranks on this machine.
bool are_on_one_machine() {
  const char *all = std::getenv("OMPI_COMM_WORLD_SIZE"),
             *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return all != nullptr && here != nullptr && std::string(all) == here;
}

// Open MPI looks for fast networks for 0.2 s, which ranks of one machine do not use. mpirun's --mca
// pml or mtl and the variables themselves have precedence, files of parameters do not.
void look_for_no_networks() {
  if (are_on_one_machine() && std::getenv("OMPI_MCA_mtl") == nullptr)
    setenv("OMPI_MCA_pml", "ob1", /*overwrite=*/0);
}

// On machines that have IPv4 and IPv6 addresses, Open MPI 5 prints a warning at the start for each
// pair of ranks (open-mpi/ompi#14079). Ranks of one machine need neither: their messages go through
// memory. mpirun's --mca and the variables themselves have precedence, files of parameters do not.
void choose_addresses() {
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
  if (std::getenv("OMPI_MCA_btl_tcp_if_include") != nullptr) return;
  if (!are_on_one_machine())
    setenv("OMPI_MCA_btl_tcp_disable_family", "6", /*overwrite=*/0);
  else if (std::getenv("OMPI_MCA_btl_tcp_if_exclude") == nullptr)
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", /*overwrite=*/0);
#endif
}

// MPI_Finalize, called by the program or by finalize_at_exit, first deletes the attributes of
// MPI_COMM_SELF (MPI 4.0, 11.2.4).
int announce_finalize(MPI_Comm, int, void*, void*) {
  if (const auto watch = world().watch; watch != nullptr) watch->finalize();
  return MPI_SUCCESS;
}

void announce_finalize_at_the_end() {
  static bool is_set = false;  // under the mutex
  if (std::exchange(is_set, true)) return;
  int key = MPI_KEYVAL_INVALID;
  if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, announce_finalize, &key, nullptr) ==
      MPI_SUCCESS)
    MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

}  // namespace

std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string describe(int status) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(status, text, &length) != MPI_SUCCESS) return concat("MPI error ", status);
  return std::string(text, static_cast<std::size_t>(length));
}

bool rondo_has_started_mpi() { return has_started; }

int start_mpi(std::chrono::milliseconds time_to_start, bool program_has_to) {
  std::lock_guard lock(mpi_mutex());
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  require<CommError>(!finalized,
                     "MPI was finalized earlier in this process and cannot be restarted");
  require<CommError>(initialized || !program_has_to,
                     "dist::init: mpi_comm was given, but MPI is not initialized; call "
                     "MPI_Init_thread first");
  if (initialized) {
    MPI_Query_thread(&level);
  } else {
    let_tcp_go_both_ways();
    look_for_no_networks();
    choose_addresses();
    const Deadline deadline("MPI_Init", time_to_start,
                            "some rank has not started, or cannot be reached");
    int status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    require<CommError>(status == MPI_SUCCESS, "MPI_Init_thread failed: ", describe(status));
    has_started = true;
    at_exit_here<finalize_at_exit>();  // before any static that holds a communicator is destroyed
  }
  announce_finalize_at_the_end();
  return level;
}

}  // namespace rondo::dist
