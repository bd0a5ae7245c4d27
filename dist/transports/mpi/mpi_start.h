#pragma once
// How MPI starts and ends in a process, and the mutex of all its calls.

#include <chrono>
#include <mutex>
#include <string>

namespace rondo::dist {

/// Held during every call of MPI.
std::mutex& mpi_mutex();
/// The text of an error of MPI.
std::string describe(int status);
/// Initializes MPI once, unless the program must do so (`program_has_to`), and then finalizes it at
/// exit. Returns the thread level in effect. Throws CommError.
int start_mpi(std::chrono::milliseconds time_to_start, bool program_has_to);
/// Whether start_mpi has initialized it. Call it under the mutex.
bool rondo_has_started_mpi();

}  // namespace rondo::dist
