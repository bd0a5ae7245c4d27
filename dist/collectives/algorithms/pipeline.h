#pragma once
// Pipeline: the machine under every ring. A ring collective is a fixed list of hops; hop i sends
// one chunk to the next rank and receives one from the previous. What makes one collective
// different from another is only which bytes those are, what must have happened before, and what is
// done with a chunk that arrived; that is its Schedule (ring_all_reduce.cpp is the one to read).
//
// Note [Pipelining]
// Up to `window` receives and `window` sends are posted at a time. While chunk k is being added
// into place, chunk k + 1 is on the wire (or waits in the peer's memory to be copied), and chunk k
// can travel on to the next rank before k + 1 is there. Receives are posted before the matching
// sends can arrive, so the bytes go straight where they belong and are copied once.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// One message each way. Empty messages are not sent; both sides know the sizes.
struct Hop {
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  std::int64_t send_after = -1;  // the hop that must have been received and processed before

  void* recv = nullptr;  // null with recv_bytes > 0: into scratch memory, for `arrived` to use
  std::size_t recv_bytes = 0;
  std::int64_t recv_after =
      -1;  // the hop whose send must be complete before (it reads this memory)
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual std::int64_t hops() const = 0;
  virtual Hop hop(std::int64_t i) const = 0;
  /// Hop i has been received, into its place or into `scratch`.
  virtual void arrived(std::int64_t i, const void* scratch) = 0;
};

/// Memory for chunks in flight, kept by the caller from one collective to the next.
class Scratch {
 public:
  virtual ~Scratch() = default;
  /// At least `bytes` bytes, aligned to 64; what an earlier call returned is void.
  virtual char* reserve(std::size_t bytes);

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> data_;
  std::size_t bytes_ = 0;
};

/// Makes the operation when its turn comes; null when there is nothing to do.
using Begin = std::function<std::unique_ptr<Operation>(Scratch& scratch)>;

class Pipeline final : public Operation {
 public:
  struct Options {
    int to, from;             // the neighbours
    int tag;                  // one for the whole collective: messages keep their order
    std::size_t chunk_bytes;  // the largest message received into scratch memory
    int window = 4;
  };
  Pipeline(Transport& transport, Scratch& scratch, std::unique_ptr<Schedule> schedule,
           Options options);
  ~Pipeline() override;

  Poll poll() override;
  std::string waiting_for() const override;

 private:
  bool post_receives();
  bool finish_receives();
  bool post_sends();
  bool finish_sends();
  char* slot(std::int64_t hop) const { return slots_ + hop % window_ * slot_bytes_; }

  Transport& transport_;
  std::unique_ptr<Schedule> schedule_;
  Options options_;
  std::int64_t hops_, window_, slot_bytes_;
  char* slots_;
  // Hops whose receive (send) is posted, and whose receive (send) is complete: always
  // done ≤ posted ≤ done + window.
  std::int64_t receives_posted_ = 0, receives_done_ = 0, sends_posted_ = 0, sends_done_ = 0;
  std::vector<Request> receives_, sends_;  // by hop modulo window
};

}  // namespace rondo::dist
