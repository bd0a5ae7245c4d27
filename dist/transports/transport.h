#pragma once
// Transport: how bytes get from one rank to another, and all that a collective algorithm may know
// of the world: ranks, tags, chunks. Implementations: dist/transports/mpi (between processes),
// dist/transports/thread (between threads of one process: tests, lessons).
//
// Nothing here blocks. `send` and `recv` only post a request; `test` polls it. So one thread can
// drive many transfers, every wait can have a deadline, and a peer that died costs an error, not a
// hang. What a wait looks like is in dist/collectives/progress.h; what is built of sends and
// receives in dist/collectives/algorithms.

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

/// A posted send or receive; 0 is "nothing posted" and always complete.
struct Request {
  std::uint64_t id = 0;
};

class Operation;

/// Who computes where a transport's messages lie: the host, unless a transport says otherwise.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;
  /// into[i] = (into[i] op from[i]) / divisor, rounded once; divisors other than 1 only for avg of
  /// floating dtypes (dist/collectives/reduce.h).
  virtual void combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op,
                       int divisor);
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// What dist::init's communicator calls rank r of this transport (which may be a group's).
  virtual int rank_in_world(int r) const { return r; }
  /// Rank r for people who have to find its process: "rank 1", and what else it is called.
  virtual std::string name_of(int r) const { return "rank " + std::to_string(r); }
  /// "mpi", "thread": for messages.
  virtual const char* name() const = 0;
  /// Whether calls may come from any thread (one at a time or not, the transport sees to it).
  virtual bool any_thread() const { return true; }

  /// Posts `bytes` bytes for `peer`. The memory must stay as it is until `test` says true. Messages
  /// between two ranks with one tag arrive in the order in which they were sent.
  /// Tags: 0 ≤ tag ≤ max_tag(). Throws CommError naming rank and peer.
  virtual Request send(int peer, int tag, const void* data, std::size_t bytes) = 0;
  /// Posts memory for a message of exactly `bytes` bytes from `peer`.
  virtual Request recv(int peer, int tag, void* data, std::size_t bytes) = 0;
  /// How many bytes `send` was given so far, checks of signatures and barriers among them. What a
  /// library's own all-reduce moves is not known, and ranks that share memory send nothing.
  virtual std::int64_t bytes_sent() const { return sent_.load(std::memory_order_relaxed); }
  /// Whether the request is complete; it is then spent and becomes 0. Throws CommError, naming rank
  /// and peer, when the transfer failed or the message had another size.
  virtual bool test(Request& request) = 0;
  /// Throws CommError, naming it, when a peer is known to have ended: for those who wait for it in
  /// memory and would not hear of it.
  virtual void check_peers() {}
  /// Computes on what arrives.
  virtual Arithmetic& arithmetic() { return host_arithmetic_; }
  /// Gives a request up; its memory is free again as far as this transport can promise it.
  virtual void abandon(Request& request) noexcept = 0;

  /// All-reduce in place as the transport's own library does it; null when it cannot for this
  /// dtype. `blocking`: the library's blocking call, which no deadline can interrupt (for
  /// benchmarks).
  virtual std::unique_ptr<Operation> native_all_reduce(void* data, std::int64_t count, DType dtype,
                                                       ReduceOp op, bool blocking);

  /// Whether native_all_reduce can do this, and means the same by it (dist/collectives/reduce.h).
  virtual bool has_native_all_reduce(DType, ReduceOp) const { return false; }
  /// Whether native_all_reduce can read and write a GPU's memory by itself.
  virtual bool reaches_gpus() const { return false; }

  /// Ends all ranks with this exit status; returns only where there is no way to do so.
  virtual void abort(int status) noexcept = 0;

  static constexpr int tag_limit = 32768;  // what the MPI standard guarantees; of one communicator
  virtual int max_tag() const { return std::numeric_limits<int>::max(); }

  /// The number of the newest group that this rank has heard of (dist/collectives/group.cpp).
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

/// A collective as a resumable step machine: `poll` does what can be done now and returns. Several
/// may be driven by one thread; none starts threads or keeps statics.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual Poll poll() = 0;
  /// What is being waited for, as the end of a sentence: "chunk 3 of 16 from rank 1".
  virtual std::string waiting_for() const = 0;
  /// A rank of the world that has not begun it, as far as this one knows; -1: none.
  virtual int missing() const { return -1; }
  /// A rank of the world that must still do something for it; -1: none, or not known which.
  virtual int awaits() const { return missing(); }
};

inline std::unique_ptr<Operation> Transport::native_all_reduce(void*, std::int64_t, DType, ReduceOp,
                                                               bool) {
  return nullptr;
}

}  // namespace rondo::dist
