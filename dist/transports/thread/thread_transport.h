#pragma once
// Transport between threads of one process: every rank is a thread. For tests, for the ring lesson,
// and for anyone who wants to step through a collective in a debugger.

#include <functional>
#include <memory>
#include <vector>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// Transports of ranks 0 … n - 1 of one world; they keep what they share alive.
std::vector<std::shared_ptr<Transport>> thread_transports(int n);

/// Runs f(transport) on n threads, one a rank, and waits for them. The first exception thrown
/// is rethrown; the other ranks' waits then fail too, instead of hanging.
void run_on_threads(int n, const std::function<void(std::shared_ptr<Transport>)>& f);

}  // namespace rondo::dist
