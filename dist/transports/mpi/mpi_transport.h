#pragma once
// Transport between processes over MPI point-to-point. The only folder that includes mpi.h is this
// one, and only in .cpp files.

#include <any>
#include <chrono>
#include <memory>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// Starts MPI if nobody has (asking for MPI_THREAD_SERIALIZED; calls are serialised by one mutex),
/// to be finalised at exit in that case, and returns a transport over its own duplicate of
/// MPI_COMM_WORLD, with MPI_ERRORS_RETURN set; of `program_comm`, an MPI_Comm, where that is not
/// empty, which is an error if the program has not started MPI. MPI_Init has `time_to_start`, if
/// RONDO_MPI_TIMEOUT does not say otherwise (dist/failure/deadline.h). Throws CommError.
std::shared_ptr<Transport> mpi_transport(std::chrono::milliseconds time_to_start,
                                         const std::any& program_comm = {});

}  // namespace rondo::dist
