// The ring. N ranks form a circle. Each rank sends only to the next rank (r + 1) and receives only
// from the previous rank (r - 1). The data is cut into N segments. Take N = 4. The table shows, for
// each rank and each of its segments 0 … 3, the set of ranks whose values are summed in it:
//
//              rank 0            rank 1            rank 2            rank 3
//   start      0 0 0 0           1 1 1 1           2 2 2 2           3 3 3 3
//
// The first N - 1 steps are a *reduce-scatter*. In step t rank r sends segment r - t (mod N). It
// receives segment r - t - 1 and adds it to its own:
//
//   t = 0      0 0 0 30          01 1 1 1          2 12 2 2          3 3 23 3
//   t = 1      0 0 230 30        01 1 1 301        012 12 2 2        3 123 23 3
//   t = 2      0 1230 230 30     01 1 2301 301     012 12 2 3012     0123 123 23 3
//
// Now segment r + 1 is complete on rank r. The other N - 1 steps are an *all-gather*: the segments
// go round the circle once more, but a segment that arrives is complete and replaces the local one.
// The formula does not change: in step t rank r still sends segment r - t.
//
// Each rank sends 2 (N - 1) / N of the data, which is less than twice the data for any N. No rank
// and no link is a bottleneck, and no all-reduce can send less (Patarasu and Yuan 2009, "Bandwidth
// optimal all-reduce algorithms"). Each segment is summed along one chain and then copied, so the
// result is bit-identical on all ranks.
//
// Note [Blocks]
// Suppose that the data has 64 MiB. The reduce-scatter would go through all of this memory, and the
// all-gather would go through it again, when it is no longer in the caches. Therefore the data is
// first cut into blocks that fit into a cache, and the ring runs on one block after another. Hops
// of the next block are posted while the last chunks of the current one are still under way. Each
// segment of a block is cut further into chunks (Note [Pipelining]).

#include "dist/collectives/algorithms/ring_all_reduce.h"

#include <algorithm>

#include "dist/collectives/algorithms/element_range.h"
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
    // If there is too little data to fill all chunks, use fewer chunks, none below 16 KiB.
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
    ElementRange out = chunk(block, r_ - t, k), in = chunk(block, r_ - t - 1, k);
    Hop hop;
    hop.send = at(out.begin);
    hop.send_bytes = bytes(out);
    if (t > 0) hop.send_after = i - k_;  // the chunk to send arrived one step ago
    hop.recv_bytes = bytes(in);
    if (t >= n_ - 1) {  // all-gather: receive into place
      hop.recv = at(in.begin);
      // Our own send from this memory, n - 1 steps ago, must be complete before.
      hop.recv_after = i - (n_ - 1) * k_;
    }
    return hop;
  }

  void arrived(std::int64_t i, const void* scratch) override {
    auto [block, t, k] = place(i);
    if (t >= n_ - 1) return;
    ElementRange in = chunk(block, r_ - t - 1, k);
    // The last addition completes the segment. For an average it also divides.
    arithmetic_.combine(at(in.begin), scratch, in.size(), dtype_, op_, t == n_ - 2 ? divisor_ : 1);
  }

 private:
  struct Place {
    std::int64_t block, step, chunk;
  };
  Place place(std::int64_t i) const { return {i / (steps_ * k_), i / k_ % steps_, i % k_}; }

  ElementRange chunk(std::int64_t block, std::int64_t segment, std::int64_t k) const {
    segment = (segment % n_ + n_) % n_;
    return part(part(part({0, count_}, block, blocks_), segment, n_), k, k_);
  }
  char* at(std::int64_t element) const { return data_ + element * size_of(dtype_); }
  std::size_t bytes(ElementRange range) const {
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

std::unique_ptr<Operation> ring_all_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op,
                                           RingOptions options) {
  int n = transport.world_size(), r = transport.rank();
  return std::make_unique<Pipeline>(
      transport, scratch,
      ring_all_reduce_schedule(r, n, data, count, dtype, op, transport.arithmetic(), options),
      Pipeline::Options{.to = (r + 1) % n,
                        .from = (r + n - 1) % n,
                        .tag = options.tag,
                        // Parts may differ in size: some are up to two elements larger.
                        .chunk_bytes = options.chunk_bytes + 16,
                        .window = options.window});
}

}  // namespace rondo::dist
