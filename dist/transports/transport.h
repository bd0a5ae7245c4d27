#pragma once
// Transport: how bytes get from one rank to another. It is everything that a collective algorithm
// knows about the other ranks: rank numbers, tags and chunks of bytes. Implementations:
// dist/transports/mpi (between processes) and dist/transports/thread (between threads of one
// process: tests, lessons).
//
// Nothing here blocks. `send` and `recv` only post a request; `test` polls it. Therefore one thread
// can drive many transfers, every wait can have a deadline, and a dead peer causes an error rather
// than a hang. dist/collectives/progress.h polls the requests; dist/collectives/algorithms builds
// collectives from sends and receives.
//
// Read next: dist/README.md, which follows a gradient through the other files of dist/.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "dist/collectives/reduce.h"

namespace rondo::dist {

using Clock = std::chrono::steady_clock;

/// A posted send or receive. 0 means "nothing posted" and is always complete.
struct Request {
  std::uint64_t id = 0;
};

class Operation;

/// Computes where a transport's messages are in memory: on the host, unless a transport overrides
/// it.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;
  /// into[i] = (into[i] op from[i]) / divisor, rounded once. Divisors other than 1 are allowed only
  /// for avg of floating dtypes (dist/collectives/reduce.h).
  virtual void combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op,
                       int divisor);
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// The number in dist::init's communicator of rank r of this transport (which may be a group's).
  virtual int rank_in_world(int r) const { return r; }
  /// Describes rank r for people who must find its process: "rank 1", possibly with more details.
  virtual std::string name_of(int r) const { return "rank " + std::to_string(r); }
  /// "mpi", "thread": used in messages.
  virtual const char* name() const = 0;
  /// Whether calls may come from any thread. The transport then serializes them where necessary.
  virtual bool any_thread() const { return true; }

  /// Posts `bytes` bytes for `peer`. The memory must not change until `test` returns true. Messages
  /// with one tag between two ranks arrive in the order in which they were sent.
  /// Tags: 0 ≤ tag ≤ max_tag(). Throws CommError that names rank and peer.
  virtual Request send(int peer, int tag, const void* data, std::size_t bytes) = 0;
  /// Posts memory for a message of exactly `bytes` bytes from `peer`.
  virtual Request recv(int peer, int tag, void* data, std::size_t bytes) = 0;
  /// How many bytes have been passed to `send` so far, including checks of signatures and barriers.
  /// It does not count what a library's own all-reduce moves; ranks that share memory send nothing.
  virtual std::int64_t bytes_sent() const { return sent_.load(std::memory_order_relaxed); }
  /// Whether the request is complete; if so, the request becomes 0. Throws CommError that names
  /// rank and peer if the transfer failed or the message had another size.
  virtual bool test(Request& request) = 0;
  /// Throws CommError that names the peer if a peer is known to have ended. For ranks that wait for
  /// a peer in shared memory, where no message could fail.
  virtual void check_peers() {}
  /// Computes on the chunks that arrive.
  virtual Arithmetic& arithmetic() { return host_arithmetic_; }
  /// Gives up a request. The caller may reuse its memory, as far as this transport can guarantee
  /// that.
  virtual void abandon(Request& request) noexcept = 0;

  /// All-reduce in place, done by the transport's own library; null if the library cannot do it for
  /// this dtype. `blocking`: the library's blocking call, which no deadline can interrupt (for
  /// benchmarks).
  virtual std::unique_ptr<Operation> native_all_reduce(void* data, std::int64_t count, DType dtype,
                                                       ReduceOp op, bool blocking);

  /// Whether native_all_reduce supports this, with the same semantics as dist/collectives/reduce.h.
  virtual bool has_native_all_reduce(DType, ReduceOp) const { return false; }
  /// Whether native_all_reduce can read and write a GPU's memory by itself.
  virtual bool reaches_gpus() const { return false; }

  /// Ends all ranks with this exit status. Returns only if that is impossible.
  virtual void abort(int status) noexcept = 0;

  static constexpr int tag_limit = 32768;  // the MPI standard guarantees this many per communicator
  virtual int max_tag() const { return std::numeric_limits<int>::max(); }

  /// The number of the newest group that this rank knows of (dist/collectives/group.cpp).
  int newest_group = 0;

 protected:
  /// Called by `send`.
  void count_sent(std::size_t bytes) {
    sent_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> sent_ = 0;
  Arithmetic host_arithmetic_;
};

/// What one call of Operation::poll achieved.
enum class Poll { idle, moved, done };

/// A collective as a resumable state machine: `poll` does what can be done now and returns. One
/// thread may drive several operations. An operation starts no threads and has no static state.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual Poll poll() = 0;
  /// What the operation waits for, as the end of a sentence: "chunk 3 of 16 from rank 1".
  virtual std::string waiting_for() const = 0;
  /// A rank of the world that has not begun the operation, as far as this rank knows; -1: no such
  /// rank.
  virtual int missing() const { return -1; }
  /// A rank of the world that must still do something for the operation; -1: no such rank, or
  /// unknown.
  virtual int awaits() const { return missing(); }
};

inline std::unique_ptr<Operation> Transport::native_all_reduce(void*, std::int64_t, DType, ReduceOp,
                                                               bool) {
  return nullptr;
}

}  // namespace rondo::dist
