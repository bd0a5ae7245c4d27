// HostCollectives: the collectives that concatenate or split equal parts, all-gather and
// reduce-scatter. They run in shared memory if the tensors are in memory from `allocate`, otherwise
// on the ring; sums of 16-bit floats use the pairwise algorithm.

#include <cstring>
#include <memory>
#include <vector>

#include "dist/collectives/algorithms/pairwise.h"
#include "dist/collectives/algorithms/ring_collectives.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/host_collectives.h"
#include "dist/collectives/sums.h"
#include "dist/transports/shared_memory/in_place.h"
#include "dist/transports/shared_memory/node_memory.h"

namespace rondo::dist {

InPlace HostCollectives::in_place(const Collective& c, const Tensor& x,
                                  std::function<std::unique_ptr<Operation>()> otherwise) const {
  return {.space = memory_->space,
          .windows = *memory_,
          .transport = *transport_,
          .signature = c.signature,
          .place = memory_->place_of(x.data_ptr(), bytes_of(x)),
          .otherwise = std::move(otherwise)};
}

Begin HostCollectives::all_gather(const Call& c) {
  return [=, this, memory = memory_](ChunkBuffer& scratch) {
    const Tensor &x = c->x, &out = c->out;
    const std::size_t bytes = bytes_of(x);
    char* mine = static_cast<char*>(out.data_ptr()) + bytes * static_cast<std::size_t>(rank_);
    if (bytes > 0 && mine != x.data_ptr()) std::memmove(mine, x.data_ptr(), bytes);
    const auto by_ring = [=, this, &scratch] {
      return ring_all_gather(*transport_, scratch, c->out.data_ptr(), bytes, ring_of(*c));
    };
    if (memory == nullptr) return by_ring();
    return shared_all_gather(in_place(*c, out, by_ring), out.data_ptr(), bytes);
  };
}

Begin HostCollectives::reduce_scatter(const Call& c, WorkState& work) {
  // On a ring the sums are formed in a copy of x, since partial sums pass through all parts of it.
  const auto sums = std::make_shared<Sums>(c->x, c->op);
  // In shared memory the other ranks may still read x, and pairwise may still send it. If out
  // overlaps x, the result is first written to separate memory.
  const auto apart = std::make_shared<std::vector<char>>();
  work.finish = [=, this] {
    const Tensor& out = c->out;
    if (!sums->empty())
      sums->give(out, out.numel() * rank_);
    else if (!apart->empty())
      std::memcpy(out.data_ptr(), apart->data(), apart->size());
  };
  const auto room = [=] {
    if (overlap(c->out, c->x)) apart->resize(bytes_of(c->out));
    return apart->empty() ? c->out.data_ptr() : apart->data();
  };
  return [=, this, memory = memory_](ChunkBuffer& scratch) {
    const Tensor& x = c->x;
    const std::int64_t count = c->out.numel();
    const auto by_messages = [=, this, &scratch] {
      const RingOptions ring = ring_of(*c);
      if (Sums::are_wide(c->x.dtype(), c->op) && !has_levels_)
        return pairwise_reduce_scatter(*transport_, scratch, c->x.data_ptr(), room(), count,
                                       c->x.dtype(), c->op, {.tag = ring.tag});
      return ring_reduce_scatter(*transport_, scratch, sums->take(), count, sums->dtype(), c->op,
                                 ring);
    };
    if (memory == nullptr) return by_messages();
    return shared_reduce_scatter(in_place(*c, x, by_messages), room(), count, x.dtype(), c->op);
  };
}

}  // namespace rondo::dist
