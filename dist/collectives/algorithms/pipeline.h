#pragma once
// Pipeline: executes every ring collective. A ring collective is a fixed list of hops: in hop i a
// rank sends one chunk to the next rank and receives one chunk from the previous rank. A
// collective's Schedule says for each hop which bytes are sent and received, which hops must be
// complete before, and what happens to the chunk that arrives. Collectives differ only in their
// Schedule. Read ring_all_reduce.cpp first.
//
// Note [Pipelining]
// Up to `window` receives and `window` sends are posted at a time. While chunk k is added to the
// local values, chunk k + 1 is in transit (or waits in the peer's memory to be copied). Once chunk
// k is added, it can be sent on to the next rank before chunk k + 1 has arrived. Receives are
// posted before the matching sends can arrive. The transport can therefore write the bytes directly
// to their destination, with a single copy.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// One message in each direction. Empty messages are not sent; both sides know the sizes.
struct Hop {
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  std::int64_t send_after = -1;  // the hop that must have been received and processed before

  void* recv = nullptr;  // null with recv_bytes > 0: scratch memory, which `arrived` reads
  std::size_t recv_bytes = 0;
  std::int64_t recv_after =
      -1;  // the hop whose send must be complete before (it reads this memory)
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual std::int64_t hops() const = 0;
  virtual Hop hop(std::int64_t i) const = 0;
  /// Called when hop i has been received, into its place or into `scratch`.
  virtual void arrived(std::int64_t i, const void* scratch) = 0;
};

/// Memory for chunks in flight. The caller reuses it from one collective to the next.
class ChunkBuffer {
 public:
  virtual ~ChunkBuffer() = default;
  /// At least `bytes` bytes, aligned to 64. Invalidates what an earlier call returned.
  virtual char* reserve(std::size_t bytes);

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> data_;
  std::size_t bytes_ = 0;
};

/// Makes the operation when it is its turn; null if there is nothing to do.
using Begin = std::function<std::unique_ptr<Operation>(ChunkBuffer& scratch)>;

class Pipeline final : public Operation {
 public:
  struct Options {
    int to, from;             // ranks of the next and the previous neighbour
    int tag;                  // one tag for the whole collective: messages stay in order
    std::size_t chunk_bytes;  // the largest message received into scratch memory
    int window = 4;
  };
  Pipeline(Transport& transport, ChunkBuffer& scratch, std::unique_ptr<Schedule> schedule,
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
  // The numbers of hops whose receive (send) has been posted, and is complete. Always done ≤ posted
  // ≤ done + window.
  std::int64_t receives_posted_ = 0, receives_done_ = 0, sends_posted_ = 0, sends_done_ = 0;
  std::vector<Request> receives_, sends_;  // index: hop modulo window
};

}  // namespace rondo::dist
