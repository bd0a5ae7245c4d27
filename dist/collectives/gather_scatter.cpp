// The collectives that concatenate or split equal parts: all-gather and reduce-scatter. They run in
// shared memory if the tensors are in memory from `allocate`, otherwise on the ring; sums of 16-bit
// floats use the pairwise algorithm.

#include <cstring>
#include <tuple>
#include <vector>

#include "dist/collectives/algorithms/pairwise.h"
#include "dist/collectives/algorithms/ring_collectives.h"
#include "dist/collectives/communicator.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/device_collectives.h"
#include "dist/collectives/sums.h"
#include "dist/transports/shared_memory/in_place.h"
#include "dist/transports/shared_memory/node_memory.h"
#include "tensor/error.h"

namespace rondo::dist {
void Communicator::check_all_gather(const Tensor& out, const Tensor& x) const {
  check_row_major("all_gather", out);
  check_dense("all_gather", x);
  require<DTypeError>(out.dtype() == x.dtype(), "all_gather: ", x.dtype(), " into ", out.dtype());
  require_one_device("all_gather", {out, x});
  require<ShapeError>(out.numel() == x.numel() * world_size_, "all_gather: x ", x.shape(), " of ",
                      world_size_, " ranks does not fill out ", out.shape());
  out.bump_version();
}

InPlace Communicator::in_place(const Signature& signature, const Tensor& x,
                               std::function<std::unique_ptr<Operation>()> otherwise) const {
  return {.space = memory_->space,
          .windows = *memory_,
          .transport = *transport_,
          .signature = signature,
          .place = memory_->place_of(x.data_ptr(), bytes_of(x)),
          .otherwise = std::move(otherwise)};
}

Communicator::Job Communicator::all_gather_job(const Tensor& out, const Tensor& own) {
  const Tensor x = row_major("all_gather", own);
  check_all_gather(out, x);
  std::string name = title("all_gather");
  const Signature signature = signature_of("all_gather", x);
  RingOptions ring = next_ring(signature);
  auto put_mine = [=, this] {
    char* mine = static_cast<char*>(out.data_ptr()) + bytes_of(x) * static_cast<std::size_t>(rank_);
    if (x.numel() > 0 && mine != x.data_ptr()) std::memcpy(mine, x.data_ptr(), bytes_of(x));
  };
  auto by_ring = [=, this](ChunkBuffer& scratch) {
    return ring_all_gather(*transport_, scratch, out.data_ptr(), bytes_of(x), ring);
  };
  auto begin = [=, this, memory = memory_](ChunkBuffer& scratch) {
    put_mine();
    if (memory == nullptr) return by_ring(scratch);
    InPlace all = in_place(signature, out, [by_ring, &scratch] { return by_ring(scratch); });
    return shared_all_gather(std::move(all), out.data_ptr(), bytes_of(x));
  };
  return {.name = std::move(name),
          .begin = std::move(begin),
          .keep = memory_,
          .signature = signature,
          .is_checked = memory_ != nullptr};
}
Work Communicator::all_gather_async(const Tensor& out, const Tensor& own) {
  if (!is_on_gpu("all_gather", own)) return start(all_gather_job(out, own));
  const Tensor x = row_major("all_gather", own);
  check_all_gather(out, x);
  DeviceCall call = next_call(signature_of("all_gather", x));
  if (x.numel() == 0) return {};
  if (world_size_ > 1)
    return compared(call.signature, [&] { return gpu_->all_gather(std::move(call), out, x); });
  copy_elements(x, out);
  return {};
}
void Communicator::all_gather(const Tensor& out, const Tensor& x) {
  if (is_on_gpu("all_gather", x)) return all_gather_async(out, x).wait();
  run(all_gather_job(out, x));
}

void Communicator::check_reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) const {
  check_row_major("reduce_scatter", out);
  check_dense("reduce_scatter", x);
  check_reducible(x.dtype(), op);
  require<DTypeError>(out.dtype() == x.dtype(), "reduce_scatter: ", x.dtype(), " into ",
                      out.dtype());
  require_one_device("reduce_scatter", {out, x});
  require<ShapeError>(x.numel() == out.numel() * world_size_, "reduce_scatter: x ", x.shape(),
                      " does not split into ", world_size_, " times out ", out.shape());
  out.bump_version();
}

Communicator::Job Communicator::reduce_scatter_job(const Tensor& out, const Tensor& own,
                                                   ReduceOp op) {
  const Tensor x = row_major("reduce_scatter", own);
  check_reduce_scatter(out, x, op);
  std::string name = title("reduce_scatter");
  const Signature signature = signature_of("reduce_scatter", x, op);
  RingOptions ring = next_ring(signature);
  // On a ring the sums are formed in a copy of x, since partial sums pass through all parts of it.
  const auto sums = std::make_shared<Sums>(x, op);
  // In shared memory the other ranks may still read x, and pairwise may still send it. If out
  // overlaps x, the result is first written to separate memory.
  const auto apart = std::make_shared<std::vector<char>>();
  const auto room = [=] {
    if (overlap(out, x)) apart->resize(bytes_of(out));
    return apart->empty() ? out.data_ptr() : apart->data();
  };
  auto by_messages = [=, this](ChunkBuffer& scratch) {
    if (Sums::are_wide(x.dtype(), op) && !has_levels_)
      return pairwise_reduce_scatter(*transport_, scratch, x.data_ptr(), room(), out.numel(),
                                     x.dtype(), op, {.tag = ring.tag});
    return ring_reduce_scatter(*transport_, scratch, sums->take(), out.numel(), sums->dtype(), op,
                               ring);
  };
  auto begin = [=, this, memory = memory_](ChunkBuffer& scratch) {
    if (memory == nullptr) return by_messages(scratch);
    InPlace all = in_place(signature, x, [by_messages, &scratch] { return by_messages(scratch); });
    return shared_reduce_scatter(std::move(all), room(), out.numel(), x.dtype(), op);
  };
  auto finish = [=, this] {
    if (!sums->empty())
      sums->give(out, out.numel() * rank_);
    else if (!apart->empty())
      std::memcpy(out.data_ptr(), apart->data(), apart->size());
  };
  return {.name = std::move(name),
          .begin = std::move(begin),
          .finish = std::move(finish),
          .keep = std::make_shared<std::tuple<decltype(sums), decltype(apart), decltype(memory_)>>(
              sums, apart, memory_),
          .signature = signature,
          .is_checked = memory_ != nullptr};
}
Work Communicator::reduce_scatter_async(const Tensor& out, const Tensor& own, ReduceOp op) {
  if (!is_on_gpu("reduce_scatter", own)) return start(reduce_scatter_job(out, own, op));
  const Tensor x = row_major("reduce_scatter", own);
  check_reduce_scatter(out, x, op);
  DeviceCall call = next_call(signature_of("reduce_scatter", x, op));
  if (x.numel() == 0) return {};
  if (world_size_ > 1)
    return compared(call.signature,
                    [&] { return gpu_->reduce_scatter(std::move(call), out, x, op); });
  copy_elements(x, out);
  return {};
}
void Communicator::reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) {
  if (is_on_gpu("reduce_scatter", x)) return reduce_scatter_async(out, x, op).wait();
  run(reduce_scatter_job(out, x, op));
}

}  // namespace rondo::dist
