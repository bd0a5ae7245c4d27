// Everybody adds up a part. Rank r is given part r by each other rank, adds up the N contributions
// at once, and sends the sum back to each:
//
//              rank 0       rank 1       rank 2
//   start      0 0 0        1 1 1        2 2 2
//   scatter    012 . .      . 012 .      . . 012
//   gather     012 012 012  012 012 012  012 012 012
//
// Like a ring each rank sends 2 (N - 1) / N of the data. But what travels are ranks' own numbers
// and finished sums, never half-finished ones: of bf16 and f16 the sum is formed in f32, whatever N
// is, and rounded once, while a ring, which sends on what it has added up so far, would round N - 1
// times or carry twice the bytes. Two messages follow each other, not 2 (N - 1). The price: each
// rank talks to all others at once. So the network between machines carries all that ranks on
// different ones have for each other, where a ring crosses from one to the next once.
//
// The parts are cut into blocks. While one block's sums travel back, the numbers of the next
// arrive:
//
//   scatter 0 | scatter 1 | gather 0 | scatter 2 | gather 1 | … | gather last
//
// of which two neighbours are under way at a time. Between two ranks all messages have one tag and
// are posted in this order on both sides.

#include "dist/collectives/algorithms/pairwise.h"

#include <algorithm>
#include <array>
#include <vector>

#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/algorithms/range.h"
#include "dist/collectives/reduce.h"

namespace rondo::dist {
namespace {

class Pairwise final : public Operation {
 public:
  /// `out`: null, for the sums to come back to where the numbers were, or room for this rank's.
  Pairwise(Transport& transport, Scratch& scratch, void* data, void* out, std::int64_t count,
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
  // Step 0 is scatter 0, step 2 b - 1 scatter b, step 2 b + 2 gather b; or there are only scatters.
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
  /// Of rank r's part.
  Range range(std::int64_t r, std::int64_t block) const {
    return part(part({0, count_}, r, n_), block, blocks_);
  }
  char* at(Range range) const { return data_ + range.begin * size_of(dtype_); }
  /// Where the sums of this rank's part go.
  char* sums(std::int64_t block) const {
    const Range mine = range(me_, block);
    if (gathers()) return at(mine);
    return out_ + (mine.begin - range(me_, 0).begin) * size_of(dtype_);
  }
  /// Where rank r's numbers arrive. Two blocks have room; the one before is added up by then.
  char* theirs(int r, std::int64_t block) const {
    return theirs_ + static_cast<std::size_t>(block % 2 * n_ + r) * slot_;
  }

  std::unique_ptr<Operation> scatter(std::int64_t block) {
    if (block == blocks_) return nullptr;
    const std::size_t mine = bytes_of(range(me_, block).size());
    auto parcels = std::make_shared<std::vector<Parcel>>(static_cast<std::size_t>(n_));
    for (int r = 0; r < n_; ++r) {
      const Range given = range(r, block);
      (*parcels)[static_cast<std::size_t>(r)] = {.send = at(given),
                                                 .send_bytes = bytes_of(given.size()),
                                                 .recv = theirs(r, block),
                                                 .recv_bytes = mine};
    }
    return exchange(transport_, std::move(parcels), tag_, n_);
  }
  void add_up(std::int64_t block) {
    const Range mine = range(me_, block);
    std::vector<const void*> from;
    for (int r = 0; r < n_; ++r) from.push_back(r == me_ ? at(mine) : theirs(r, block));
    void* const into = sums(block);
    combine_all(std::span(&into, 1), from, mine.size(), dtype_, op_, op_ == ReduceOp::avg ? n_ : 1);
  }
  std::unique_ptr<Operation> gather(std::int64_t block) {
    const std::size_t mine = bytes_of(range(me_, block).size());
    auto parcels = std::make_shared<std::vector<Parcel>>(static_cast<std::size_t>(n_));
    for (int r = 0; r < n_; ++r) {
      const Range theirs = range(r, block);
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
  std::array<std::unique_ptr<Operation>, 2> under_way_;  // by step modulo 2; null: over
  std::int64_t begun_ = 0, over_ = 0;                    // over ≤ begun ≤ over + 2
};

}  // namespace

std::unique_ptr<Operation> pairwise_all_reduce(Transport& transport, Scratch& scratch, void* data,
                                               std::int64_t count, DType dtype, ReduceOp op,
                                               PairwiseOptions options) {
  check_reducible(dtype, op);
  return std::make_unique<Pairwise>(transport, scratch, data, nullptr, count, dtype, op, options);
}

std::unique_ptr<Operation> pairwise_reduce_scatter(Transport& transport, Scratch& scratch,
                                                   const void* data, void* out,
                                                   std::int64_t part_count, DType dtype,
                                                   ReduceOp op, PairwiseOptions options) {
  check_reducible(dtype, op);
  // Without a way back `data` is only read.
  return std::make_unique<Pairwise>(transport, scratch, const_cast<void*>(data), out,
                                    part_count * transport.world_size(), dtype, op, options);
}

}  // namespace rondo::dist
