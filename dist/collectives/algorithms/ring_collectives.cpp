// Schedules for broadcast, all-gather and reduce-scatter. Read ring_all_reduce.cpp first.

#include "dist/collectives/algorithms/ring_collectives.h"

#include <algorithm>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The largest size up to `bytes` that consists of whole elements, but at least one element.
constexpr std::int64_t whole_elements(std::size_t bytes, std::int64_t size) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes) / size) * size;
}

class ChainBroadcast final : public Schedule {
 public:
  ChainBroadcast(int position, int world_size, void* data, std::size_t bytes, std::size_t chunk)
      : is_first_(position == 0),
        is_last_(position == world_size - 1),
        data_(static_cast<char*>(data)),
        bytes_(bytes),
        chunk_(chunk) {}

  std::int64_t hops() const override {
    return ceil_div(static_cast<std::int64_t>(bytes_), static_cast<std::int64_t>(chunk_));
  }
  Hop hop(std::int64_t i) const override {
    std::size_t begin = static_cast<std::size_t>(i) * chunk_;
    std::size_t size = std::min(chunk_, bytes_ - begin);
    Hop hop;
    if (!is_last_) {
      hop.send = data_ + begin;
      hop.send_bytes = size;
      hop.send_after = is_first_ ? -1 : i;
    }
    if (!is_first_) {
      hop.recv = data_ + begin;
      hop.recv_bytes = size;
    }
    return hop;
  }
  void arrived(std::int64_t, const void*) override {}

 private:
  bool is_first_, is_last_;
  char* data_;
  std::size_t bytes_, chunk_;
};

class ChainReduce final : public Schedule {
 public:
  /// position: 0 for the first rank of the chain, world_size - 1 for the root.
  ChainReduce(int position, int world_size, void* data, std::int64_t bytes, std::int64_t chunk,
              DType dtype, ReduceOp op, Arithmetic& arithmetic)
      : is_first_(position == 0),
        is_root_(position == world_size - 1),
        divisor_(is_root_ && op == ReduceOp::avg ? world_size : 1),
        data_(static_cast<char*>(data)),
        bytes_(bytes),
        chunk_(chunk),
        dtype_(dtype),
        op_(op),
        arithmetic_(arithmetic) {}

  std::int64_t hops() const override { return ceil_div(bytes_, chunk_); }
  Hop hop(std::int64_t i) const override {
    Hop hop;
    if (!is_root_) {
      hop.send = data_ + i * chunk_;
      hop.send_bytes = size(i);
      hop.send_after = is_first_ ? -1 : i;
    }
    if (!is_first_) hop.recv_bytes = size(i);
    return hop;
  }
  void arrived(std::int64_t i, const void* scratch) override {
    if (is_first_) return;
    const std::int64_t count = static_cast<std::int64_t>(size(i)) / size_of(dtype_);
    arithmetic_.combine(data_ + i * chunk_, scratch, count, dtype_, op_, divisor_);
  }

 private:
  std::size_t size(std::int64_t i) const {
    return static_cast<std::size_t>(std::min(chunk_, bytes_ - i * chunk_));
  }
  bool is_first_, is_root_;
  int divisor_;
  char* data_;
  std::int64_t bytes_, chunk_;
  DType dtype_;
  ReduceOp op_;
  Arithmetic& arithmetic_;
};

// One half of a ring all-reduce, over N parts, each with `chunks` chunks. In step t rank r sends
// part r + shift - t and receives part r + shift - t - 1.
class HalfRing : public Schedule {
 public:
  HalfRing(int rank, int world_size, int shift, void* data, std::int64_t part_bytes,
           std::int64_t chunk)
      : r_(rank + shift),
        n_(world_size),
        data_(static_cast<char*>(data)),
        part_(part_bytes),
        chunk_(chunk),
        k_(ceil_div(part_bytes, chunk)) {}
  std::int64_t hops() const override { return (n_ - 1) * k_; }

 protected:
  char* at(std::int64_t part, std::int64_t k) const {
    return data_ + (part % n_ + n_) % n_ * part_ + k * chunk_;
  }
  std::size_t bytes(std::int64_t k) const {
    return static_cast<std::size_t>(std::min(chunk_, part_ - k * chunk_));
  }
  std::int64_t r_, n_;
  char* data_;
  std::int64_t part_, chunk_, k_;
};

struct RingAllGather final : HalfRing {
  using HalfRing::HalfRing;
  Hop hop(std::int64_t i) const override {
    std::int64_t t = i / k_, k = i % k_;
    return {.send = at(r_ - t, k),
            .send_bytes = bytes(k),
            .send_after = t > 0 ? i - k_ : -1,
            .recv = at(r_ - t - 1, k),
            .recv_bytes = bytes(k)};
  }
  void arrived(std::int64_t, const void*) override {}
};

// With shift -1, the part that is complete on rank r after the last step is part r.
class RingReduceScatter final : public HalfRing {
 public:
  RingReduceScatter(int rank, int world_size, void* data, std::int64_t part_bytes,
                    std::int64_t chunk, DType dtype, ReduceOp op, Arithmetic& arithmetic)
      : HalfRing(rank, world_size, -1, data, part_bytes, chunk),
        dtype_(dtype),
        op_(op),
        arithmetic_(arithmetic) {}

  Hop hop(std::int64_t i) const override {
    std::int64_t t = i / k_, k = i % k_;
    return {.send = at(r_ - t, k),
            .send_bytes = bytes(k),
            .send_after = t > 0 ? i - k_ : -1,
            .recv_bytes = bytes(k)};
  }
  void arrived(std::int64_t i, const void* scratch) override {
    std::int64_t t = i / k_, k = i % k_;
    std::int64_t count = static_cast<std::int64_t>(bytes(k)) / size_of(dtype_);
    const bool divides = op_ == ReduceOp::avg && t == n_ - 2;
    arithmetic_.combine(at(r_ - t - 1, k), scratch, count, dtype_, op_,
                        divides ? static_cast<int>(n_) : 1);
  }

 private:
  DType dtype_;
  ReduceOp op_;
  Arithmetic& arithmetic_;
};

class Barrier final : public Operation {
 public:
  Barrier(Transport& transport, int tag) : transport_(transport), tag_(tag) {}
  ~Barrier() override {
    transport_.abandon(sent_);
    transport_.abandon(heard_);
  }

  Poll poll() override {
    int n = transport_.world_size(), r = transport_.rank();
    if (distance_ >= n) return Poll::done;
    if (!posted_) {
      heard_ = transport_.recv((r - distance_ + n) % n, tag_, &theirs_, 1);
      sent_ = transport_.send((r + distance_) % n, tag_, &mine_, 1);
      posted_ = true;
      return Poll::moved;
    }
    if (!transport_.test(heard_) || !transport_.test(sent_)) return Poll::idle;
    distance_ *= 2;
    posted_ = false;
    return distance_ >= n ? Poll::done : Poll::moved;
  }
  std::string waiting_for() const override {
    int n = transport_.world_size();
    const int before = (transport_.rank() - distance_ % n + n) % n;
    return concat("rank ", transport_.rank_in_world(before), " to reach the barrier");
  }

 private:
  Transport& transport_;
  int tag_, distance_ = 1;
  bool posted_ = false;
  char mine_ = 0, theirs_ = 0;
  Request sent_, heard_;
};

std::unique_ptr<Operation> on_ring(Transport& transport, ChunkBuffer& scratch,
                                   std::unique_ptr<Schedule> schedule, std::size_t chunk_bytes,
                                   const RingOptions& options) {
  int n = transport.world_size(), r = transport.rank();
  return std::make_unique<Pipeline>(transport, scratch, std::move(schedule),
                                    Pipeline::Options{.to = (r + 1) % n,
                                                      .from = (r + n - 1) % n,
                                                      .tag = options.tag,
                                                      .chunk_bytes = chunk_bytes,
                                                      .window = options.window});
}

}  // namespace

std::unique_ptr<Operation> chain_broadcast(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::size_t bytes, int root, RingOptions options) {
  int n = transport.world_size(), r = transport.rank();
  require<CommError>(0 <= root && root < n, "broadcast: root is rank ", root,
                     ", but the world has ", n, " ranks");
  int position = (r - root + n) % n;
  return on_ring(
      transport, scratch,
      std::make_unique<ChainBroadcast>(position, n, data, n > 1 ? bytes : 0, options.chunk_bytes),
      0, options);
}

std::unique_ptr<Operation> chain_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                        std::int64_t count, DType dtype, ReduceOp op, int root,
                                        RingOptions options) {
  check_reducible(dtype, op);
  const int n = transport.world_size(), position = (transport.rank() - root - 1 + 2 * n) % n;
  const std::int64_t size = size_of(dtype), chunk = whole_elements(options.chunk_bytes, size);
  return on_ring(transport, scratch,
                 std::make_unique<ChainReduce>(position, n, data, n > 1 ? count * size : 0, chunk,
                                               dtype, op, transport.arithmetic()),
                 static_cast<std::size_t>(chunk), options);
}

std::unique_ptr<Operation> ring_all_gather(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::size_t part_bytes, RingOptions options) {
  return on_ring(transport, scratch,
                 std::make_unique<RingAllGather>(transport.rank(), transport.world_size(), 0, data,
                                                 static_cast<std::int64_t>(part_bytes),
                                                 static_cast<std::int64_t>(options.chunk_bytes)),
                 0, options);
}

std::unique_ptr<Operation> ring_reduce_scatter(Transport& transport, ChunkBuffer& scratch,
                                               void* data, std::int64_t part_count, DType dtype,
                                               ReduceOp op, RingOptions options) {
  check_reducible(dtype, op);
  const std::int64_t size = size_of(dtype), chunk = whole_elements(options.chunk_bytes, size);
  return on_ring(transport, scratch,
                 std::make_unique<RingReduceScatter>(transport.rank(), transport.world_size(), data,
                                                     part_count * size, chunk, dtype, op,
                                                     transport.arithmetic()),
                 static_cast<std::size_t>(chunk), options);
}

std::unique_ptr<Operation> barrier(Transport& transport, int tag) {
  return std::make_unique<Barrier>(transport, tag);
}

}  // namespace rondo::dist
