// Every rank sends its data to every other rank, and adds the N contributions itself. The critical
// path has a single message, which is the minimum; the network carries N (N - 1) messages, which is
// the maximum. This is fast for a few bytes on a few ranks.

#include "dist/collectives/algorithms/direct.h"

#include <vector>

#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/reduce.h"

namespace rondo::dist {
namespace {

class DirectAllReduce final : public Operation {
 public:
  DirectAllReduce(Transport& transport, ChunkBuffer& scratch, void* data, std::int64_t count,
                  DType dtype, ReduceOp op, int tag)
      : data_(data), count_(count), dtype_(dtype), op_(op), from_(places(transport, scratch)) {
    const auto parcels = std::make_shared<std::vector<Parcel>>();
    for (void* place : from_)
      parcels->push_back(
          {.send = data, .send_bytes = bytes(), .recv = place, .recv_bytes = bytes()});
    exchange_ = exchange(transport, parcels, tag, transport.world_size());
  }

  Poll poll() override {
    const Poll poll = exchange_->poll();
    if (poll != Poll::done || count_ == 0) return poll;
    const int n = static_cast<int>(from_.size());
    const std::vector<const void*> from(from_.begin(), from_.end());
    combine_all(std::span(&data_, 1), from, count_, dtype_, op_, op_ == ReduceOp::avg ? n : 1);
    return Poll::done;
  }
  std::string waiting_for() const override { return exchange_->waiting_for(); }
  int awaits() const override { return exchange_->awaits(); }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_ * size_of(dtype_)); }
  /// Where each rank's contribution is once it has arrived; this rank's own stays in place.
  std::vector<void*> places(const Transport& transport, ChunkBuffer& scratch) const {
    const std::size_t n = static_cast<std::size_t>(transport.world_size());
    const std::size_t step = (bytes() + 63) / 64 * 64;
    char* first = scratch.reserve(n * step);
    std::vector<void*> all;
    for (std::size_t r = 0; r < n; ++r)
      all.push_back(static_cast<int>(r) == transport.rank() ? data_ : first + r * step);
    return all;
  }

  void* data_;
  std::int64_t count_;
  DType dtype_;
  ReduceOp op_;
  std::vector<void*> from_;  // by rank
  std::unique_ptr<Operation> exchange_;
};

}  // namespace

std::unique_ptr<Operation> direct_all_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                             std::int64_t count, DType dtype, ReduceOp op,
                                             int tag) {
  check_reducible(dtype, op);
  return std::make_unique<DirectAllReduce>(transport, scratch, data, count, dtype, op, tag);
}

}  // namespace rondo::dist
