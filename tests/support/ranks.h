#pragma once
// Ranks that are threads of the test.

#include <functional>
#include <memory>

#include "dist/collectives/communicator.h"
#include "dist/transports/thread/thread_transport.h"

namespace rondo::test {

/// Runs f(communicator) on n threads, one per rank; rethrows the first exception.
inline void on_ranks(int n, const std::function<void(std::shared_ptr<dist::Communicator>)>& f,
                     dist::CommunicatorOptions options = {.timeout = std::chrono::seconds(60)}) {
  dist::run_on_threads(n, [&](std::shared_ptr<dist::Transport> transport) {
    f(std::make_shared<dist::Communicator>(std::move(transport), options));
  });
}

/// The same with ranks that communicate through shared memory.
inline void on_ranks_sharing_memory(
    int n, const std::function<void(std::shared_ptr<dist::Communicator>)>& f,
    dist::CommunicatorOptions options = {.timeout = std::chrono::seconds(60)}) {
  on_ranks(
      n,
      [&](std::shared_ptr<dist::Communicator> comm) {
        comm->share_memory();
        f(comm);
      },
      options);
}

}  // namespace rondo::test
