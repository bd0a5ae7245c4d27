#pragma once
// Transport between processes with MPI point-to-point messages. Only the .cpp files of this folder
// include mpi.h.

#include <any>
#include <chrono>
#include <memory>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// Initializes MPI unless the program has done so (asking for MPI_THREAD_SERIALIZED; one mutex
/// serializes the calls), and then finalizes it at exit. Returns a transport over its own duplicate
/// of MPI_COMM_WORLD, with MPI_ERRORS_RETURN set. If `program_comm`, an MPI_Comm, is not empty, it
/// is duplicated instead; it is then an error if the program has not initialized MPI.
/// `time_to_start` is the time limit of MPI_Init, unless RONDO_MPI_TIMEOUT is set
/// (dist/failure/deadline.h). Throws CommError.
std::shared_ptr<Transport> mpi_transport(std::chrono::milliseconds time_to_start,
                                         const std::any& program_comm = {});

}  // namespace rondo::dist
