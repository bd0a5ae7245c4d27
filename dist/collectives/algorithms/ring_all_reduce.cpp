// The ring. N ranks stand in a circle; each only ever talks to the next (r + 1) and hears the
// previous (r - 1). The data are cut into N segments. Take N = 4; what each rank holds of segment
// 0 … 3 is written as the set of ranks whose values are in it:
//
//              rank 0            rank 1            rank 2            rank 3
//   start      0 0 0 0           1 1 1 1           2 2 2 2           3 3 3 3
//
// First N - 1 steps of *reduce-scatter*. In step t rank r sends segment r - t (mod N), and adds the
// segment r - t - 1 that arrives to its own:
//
//   t = 0      0 0 0 30          01 1 1 1          2 12 2 2          3 3 23 3
//   t = 1      0 0 230 30        01 1 1 301        012 12 2 2        3 123 23 3
//   t = 2      0 1230 230 30     01 1 2301 301     012 12 2 3012     0123 123 23 3
//
// Now rank r holds segment r + 1 complete. Then N - 1 steps of *all-gather*: the same circle once
// more, but what arrives is complete and replaces what was there. The formula for who sends what
// does not change: step t still sends segment r - t.
//
// Each rank sends 2 (N - 1) / N of the data, whatever N: no rank and no link is a bottleneck, and
// that is the least possible (Patarasu and Yuan 2009, "Bandwidth optimal all-reduce algorithms").
// Each segment is added up along one chain and then copied, so all ranks end with equal bits.
//
// Note [Blocks]
// Run over 64 MiB at once, the ring would walk through all of memory in the first half and again in
// the second, when none of it is left in the caches. So the data are first cut into blocks that a
// cache holds, and each block goes round on its own; hops of the next block are posted while the
// last chunks of this one are still under way. Segments are cut further into chunks
// (Note [Pipelining]).

#include "dist/collectives/algorithms/ring_all_reduce.h"

#include <algorithm>

#include "dist/collectives/algorithms/range.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

class RingAllReduce final : public Schedule {
 public:
  RingAllReduce(int rank, int world_size, void* data, std::int64_t count, DType dtype, ReduceOp op,
                const RingOptions& options, Arithmetic& arithmetic)
      : arithmetic_(arithmetic),
        r_(rank),
        n_(world_size),
        data_(static_cast<char*>(data)),
        count_(count),
        dtype_(dtype),
        op_(op),
        divisor_(op != ReduceOp::avg   ? 1
                 : options.divisor > 0 ? options.divisor
                                       : world_size),
        chunk_(std::max<std::int64_t>(
            1, static_cast<std::int64_t>(options.chunk_bytes) / size_of(dtype))) {
    // Too little data to fill all chunks: fewer of them, none below 16 KiB.
    std::int64_t least = std::max<std::int64_t>(1, std::min(chunk_, 16384 / size_of(dtype)));
    std::int64_t segment = (count_ + n_ - 1) / n_;
    k_ = std::clamp<std::int64_t>((segment + least - 1) / least, 1, options.chunks_per_segment);
    std::int64_t block = chunk_ * k_ * n_;
    blocks_ = (count_ + block - 1) / block;
    steps_ = 2 * (n_ - 1);
  }

  std::int64_t hops() const override { return blocks_ * steps_ * k_; }

  Hop hop(std::int64_t i) const override {
    auto [block, t, k] = place(i);
    Range out = chunk(block, r_ - t, k), in = chunk(block, r_ - t - 1, k);
    Hop hop;
    hop.send = at(out.begin);
    hop.send_bytes = bytes(out);
    if (t > 0) hop.send_after = i - k_;  // what is passed on arrived as this chunk a step ago
    hop.recv_bytes = bytes(in);
    if (t >= n_ - 1) {  // all-gather: straight into place, once our own send of it (n - 1 steps
      hop.recv = at(in.begin);  // ago) no longer reads that memory
      hop.recv_after = i - (n_ - 1) * k_;
    }
    return hop;
  }

  void arrived(std::int64_t i, const void* scratch) override {
    auto [block, t, k] = place(i);
    if (t >= n_ - 1) return;
    Range in = chunk(block, r_ - t - 1, k);
    // An average is divided with the last addition, which completes the segment.
    arithmetic_.combine(at(in.begin), scratch, in.size(), dtype_, op_, t == n_ - 2 ? divisor_ : 1);
  }

 private:
  struct Place {
    std::int64_t block, step, chunk;
  };
  Place place(std::int64_t i) const { return {i / (steps_ * k_), i / k_ % steps_, i % k_}; }

  Range chunk(std::int64_t block, std::int64_t segment, std::int64_t k) const {
    segment = (segment % n_ + n_) % n_;
    return part(part(part({0, count_}, block, blocks_), segment, n_), k, k_);
  }
  char* at(std::int64_t element) const { return data_ + element * size_of(dtype_); }
  std::size_t bytes(Range range) const {
    return static_cast<std::size_t>(range.size() * size_of(dtype_));
  }

  Arithmetic& arithmetic_;
  std::int64_t r_, n_;
  char* data_;
  std::int64_t count_;
  DType dtype_;
  ReduceOp op_;
  int divisor_;
  std::int64_t chunk_, k_, blocks_, steps_;
};

}  // namespace

std::unique_ptr<Schedule> ring_all_reduce_schedule(int rank, int world_size, void* data,
                                                   std::int64_t count, DType dtype, ReduceOp op,
                                                   Arithmetic& arithmetic, RingOptions options) {
  check_reducible(dtype, op);
  return std::make_unique<RingAllReduce>(rank, world_size, data, count, dtype, op, options,
                                         arithmetic);
}

std::unique_ptr<Operation> ring_all_reduce(Transport& transport, Scratch& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op,
                                           RingOptions options) {
  int n = transport.world_size(), r = transport.rank();
  return std::make_unique<Pipeline>(
      transport, scratch,
      ring_all_reduce_schedule(r, n, data, count, dtype, op, transport.arithmetic(), options),
      Pipeline::Options{.to = (r + 1) % n,
                        .from = (r + n - 1) % n,
                        .tag = options.tag,
                        // Uneven parts are up to two elements larger.
                        .chunk_bytes = options.chunk_bytes + 16,
                        .window = options.window});
}

}  // namespace rondo::dist
