// Every rank reduces one part. Rank r receives part r from each other rank, adds the N
// contributions at once, and sends the sum to every rank:
//
//              rank 0       rank 1       rank 2
//   start      0 0 0        1 1 1        2 2 2
//   scatter    012 . .      . 012 .      . . 012
//   gather     012 012 012  012 012 012  012 012 012
//
// As in a ring, each rank sends 2 (N - 1) / N of the data. But it sends only original values and
// final sums, never partial sums. Therefore sums of bf16 and f16 are formed in f32, for any N, and
// rounded once. A ring sends on its partial sums, so it would round N - 1 times or send twice the
// bytes. Only two messages are in sequence, not 2 (N - 1). The disadvantage: each rank communicates
// with all others at once. So the network carries everything that ranks on different machines send
// each other, while a ring crosses from one machine to the next only once.
//
// The parts are cut into blocks. While the sums of one block are sent back, the values of the next
// block arrive:
//
//   scatter 0 | scatter 1 | gather 0 | scatter 2 | gather 1 | … | gather last
//
// Two neighbouring steps of this list are under way at a time. All messages between two ranks have
// one tag, and both sides post them in this order.

#include "dist/collectives/algorithms/pairwise.h"

#include <algorithm>
#include <array>
#include <vector>

#include "dist/collectives/algorithms/element_range.h"
#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/reduce.h"

namespace rondo::dist {
namespace {

class Pairwise final : public Operation {
 public:
  /// `out`: room for the sums of this rank's part; or null: the sums replace the values in `data`.
  Pairwise(Transport& transport, ChunkBuffer& scratch, void* data, void* out, std::int64_t count,
           DType dtype, ReduceOp op, const PairwiseOptions& options)
      : transport_(transport),
        data_(static_cast<char*>(data)),
        out_(static_cast<char*>(out)),
        count_(count),
        dtype_(dtype),
        op_(op),
        tag_(options.tag),
        n_(transport.world_size()),
        me_(transport.rank()) {
    const std::int64_t most = (count + n_ - 1) / n_;  // of a part
    const auto chunk =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(options.chunk_bytes) / size_of(dtype));
    blocks_ = std::max<std::int64_t>(1, (most + chunk - 1) / chunk);
    slot_ = (bytes_of(most / blocks_ + 1) + 63) / 64 * 64;
    theirs_ = scratch.reserve(2 * static_cast<std::size_t>(n_) * slot_);
  }

  Poll poll() override {
    bool moved = false;
    for (; begun_ < steps() && begun_ < over_ + 2; ++begun_, moved = true)
      under_way(begun_) = is_scatter(begun_) ? scatter(block_of(begun_)) : gather(block_of(begun_));
    for (std::int64_t i = over_; i < begun_; ++i) {
      if (under_way(i) == nullptr) continue;
      const Poll poll = under_way(i)->poll();
      moved |= poll != Poll::idle;
      if (poll != Poll::done) continue;
      under_way(i) = nullptr;
      if (is_scatter(i)) add_up(block_of(i));
    }
    while (over_ < begun_ && under_way(over_) == nullptr) ++over_;
    if (over_ == steps()) return Poll::done;
    return moved ? Poll::moved : Poll::idle;
  }
  std::string waiting_for() const override {
    return current() == nullptr ? "nothing" : current()->waiting_for();
  }
  int awaits() const override { return current() == nullptr ? -1 : current()->awaits(); }

 private:
  bool gathers() const { return out_ == nullptr; }
  // Step 0 is scatter 0, step 2 b - 1 is scatter b, step 2 b + 2 is gather b; without gathers, step
  // b is scatter b.
  std::int64_t steps() const { return gathers() ? 2 * blocks_ + 1 : blocks_; }
  bool is_scatter(std::int64_t step) const { return !gathers() || step == 0 || step % 2 == 1; }
  std::int64_t block_of(std::int64_t step) const {
    if (!gathers()) return step;
    return is_scatter(step) ? (step + 1) / 2 : step / 2 - 1;
  }
  std::unique_ptr<Operation>& under_way(std::int64_t step) {
    return under_way_[static_cast<std::size_t>(step % 2)];
  }
  const Operation* current() const { return under_way_[static_cast<std::size_t>(over_ % 2)].get(); }

  std::size_t bytes_of(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * size_of(dtype_));
  }
  /// The range of a block of rank r's part.
  ElementRange range(std::int64_t r, std::int64_t block) const {
    return part(part({0, count_}, r, n_), block, blocks_);
  }
  char* at(ElementRange range) const { return data_ + range.begin * size_of(dtype_); }
  /// The destination of the sums of this rank's part.
  char* sums(std::int64_t block) const {
    const ElementRange mine = range(me_, block);
    if (gathers()) return at(mine);
    return out_ + (mine.begin - range(me_, 0).begin) * size_of(dtype_);
  }
  /// Where rank r's values arrive. There is room for two blocks; the block before the previous one
  /// has been added by then.
  char* theirs(int r, std::int64_t block) const {
    return theirs_ + static_cast<std::size_t>(block % 2 * n_ + r) * slot_;
  }

  std::unique_ptr<Operation> scatter(std::int64_t block) {
    if (block == blocks_) return nullptr;
    const std::size_t mine = bytes_of(range(me_, block).size());
    auto parcels = std::make_shared<std::vector<Parcel>>(static_cast<std::size_t>(n_));
    for (int r = 0; r < n_; ++r) {
      const ElementRange given = range(r, block);
      (*parcels)[static_cast<std::size_t>(r)] = {.send = at(given),
                                                 .send_bytes = bytes_of(given.size()),
                                                 .recv = theirs(r, block),
                                                 .recv_bytes = mine};
    }
    return exchange(transport_, std::move(parcels), tag_, n_);
  }
  void add_up(std::int64_t block) {
    const ElementRange mine = range(me_, block);
    std::vector<const void*> from;
    for (int r = 0; r < n_; ++r) from.push_back(r == me_ ? at(mine) : theirs(r, block));
    void* const into = sums(block);
    combine_all(std::span(&into, 1), from, mine.size(), dtype_, op_, op_ == ReduceOp::avg ? n_ : 1);
  }
  std::unique_ptr<Operation> gather(std::int64_t block) {
    const std::size_t mine = bytes_of(range(me_, block).size());
    auto parcels = std::make_shared<std::vector<Parcel>>(static_cast<std::size_t>(n_));
    for (int r = 0; r < n_; ++r) {
      const ElementRange theirs = range(r, block);
      (*parcels)[static_cast<std::size_t>(r)] = {.send = sums(block),
                                                 .send_bytes = mine,
                                                 .recv = at(theirs),
                                                 .recv_bytes = bytes_of(theirs.size())};
    }
    return exchange(transport_, std::move(parcels), tag_, n_);
  }

  Transport& transport_;
  char *data_, *out_, *theirs_;
  std::int64_t count_, blocks_;
  std::size_t slot_;
  DType dtype_;
  ReduceOp op_;
  int tag_, n_, me_;
  std::array<std::unique_ptr<Operation>, 2> under_way_;  // by step modulo 2; null: complete
  std::int64_t begun_ = 0, over_ = 0;                    // over ≤ begun ≤ over + 2
};

}  // namespace

std::unique_ptr<Operation> pairwise_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                               void* data, std::int64_t count, DType dtype,
                                               ReduceOp op, PairwiseOptions options) {
  check_reducible(dtype, op);
  return std::make_unique<Pairwise>(transport, scratch, data, nullptr, count, dtype, op, options);
}

std::unique_ptr<Operation> pairwise_reduce_scatter(Transport& transport, ChunkBuffer& scratch,
                                                   const void* data, void* out,
                                                   std::int64_t part_count, DType dtype,
                                                   ReduceOp op, PairwiseOptions options) {
  check_reducible(dtype, op);
  // Without a gather `data` is only read.
  return std::make_unique<Pairwise>(transport, scratch, const_cast<void*>(data), out,
                                    part_count * transport.world_size(), dtype, op, options);
}

}  // namespace rondo::dist
