#pragma once
// Transport between threads of one process: every rank is a thread. For tests, for the ring lesson,
// and for stepping through a collective in a debugger.

#include <functional>
#include <memory>
#include <vector>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// Transports of ranks 0 … n - 1 of one world; they own the state that they share.
std::vector<std::shared_ptr<Transport>> thread_transports(int n);

/// Runs f(transport) on n threads, one for each rank, and waits for them. Rethrows the first
/// exception; the other ranks' waits then fail, too, instead of hanging.
void run_on_threads(int n, const std::function<void(std::shared_ptr<Transport>)>& f);

}  // namespace rondo::dist
