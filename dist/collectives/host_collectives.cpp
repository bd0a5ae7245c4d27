#include "dist/collectives/host_collectives.h"

#include <utility>

#include "dist/collectives/algorithms/binomial_tree.h"
#include "dist/collectives/algorithms/ring_collectives.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/sums.h"
#include "dist/collectives/tuner.h"
#include "dist/transports/shared_memory/node_memory.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Whether a tree, with few messages in sequence, is faster than a chain, with many concurrent
/// ones.
bool is_small(const Tensor& x) { return bytes_of(x) <= 32 << 10; }

}  // namespace

HostCollectives::HostCollectives(std::shared_ptr<Transport> transport, CommunicatorOptions options,
                                 std::shared_ptr<FlightRecorder> recorder)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()),
      recorder_(std::move(recorder)),
      has_background_thread_(options_.background_thread && transport_->any_thread() &&
                             world_size_ > 1) {
  require<CommError>(options_.node_of.empty() || std::ssize(options_.node_of) == world_size_,
                     "CommunicatorOptions::node_of has ", options_.node_of.size(),
                     " entries, but the number of ranks is ", world_size_);
  set_node_of(options_.node_of);
  progress_ =
      std::make_shared<Progress>(Progress::Options{.transport = transport_,
                                                   .timeout = options_.timeout,
                                                   .background_thread = has_background_thread_,
                                                   .recorder = recorder_});
  progress_->start();
}

// Work under way uses the other members, in the thread that polls it.
HostCollectives::~HostCollectives() { close(); }

Work HostCollectives::start(Collective&& c, bool waits) {
  if (waits && run_now(c)) return {};
  return submit(prepare(std::move(c)), !waits);
}

// The collectives that take less time than a work, its queue and its name: in shared memory, if
// nothing else is under way.
bool HostCollectives::run_now(const Collective& c) {
  const bool is_barrier = c.kind == Kind::barrier && memory_ != nullptr;
  if (!is_barrier && !is_in_memory(c)) return false;
  return progress_->run_now(
      c.x.impl_ptr(), c.signature, c.about,
      [&](ChunkBuffer& scratch) {
        if (!is_barrier) return all_reduce_in(*memory_, c, scratch);
        return checked(memory_->space, *transport_, c.signature,
                       [] { return std::unique_ptr<Operation>(); });
      },
      [&] { return c.title(); });
}

std::shared_ptr<WorkState> HostCollectives::prepare(Collective&& collective, bool is_compared) {
  const auto c = std::make_shared<const Collective>(std::move(collective));
  auto work = std::make_shared<WorkState>();
  work->label = c->title();
  work->is_message = c->is_message();
  work->begin = begin_of(c, *work);
  if (c->is_message()) return work;
  // In shared memory all_reduce, all_gather and reduce_scatter begin with the comparison.
  is_compared |= is_in_memory(*c) || (memory_ != nullptr && c->out.defined());
  if (!is_compared) work->begin = compared(c->signature, std::move(work->begin));
  work->record = recorder_->issued(c->signature, c->about);
  return work;
}

Work HostCollectives::submit(std::shared_ptr<WorkState> work, bool wake) {
  progress_->submit(work, wake);
  return Work(std::move(work));
}

Begin HostCollectives::compared(const Signature& signature, Begin begin) const {
  if (world_size_ == 1) return begin;
  return [transport = transport_, memory = memory_, signature,
          begin = std::move(begin)](ChunkBuffer& scratch) {
    const auto make = [&begin, &scratch] { return begin(scratch); };
    return memory == nullptr ? checked(*transport, signature, make)
                             : checked(memory->space, *transport, signature, make);
  };
}

Begin HostCollectives::begin_of(const Call& c, WorkState& work) {
  switch (c->kind) {
    case Kind::all_reduce:
      return all_reduce(c, work);
    case Kind::reduce:
      return reduce(c, work);
    case Kind::broadcast:
      return broadcast(c);
    case Kind::all_gather:
      return all_gather(c);
    case Kind::reduce_scatter:
      return reduce_scatter(c, work);
    case Kind::exchange:
      return exchange(c);
    case Kind::barrier:
      return barrier(c);
    case Kind::send:
    case Kind::recv:
      break;
  }
  return message(c);
}

RingOptions HostCollectives::ring_of(const Collective& c) const {
  RingOptions ring = options_.ring;
  ring.tag = c.signature.tag();
  return ring;
}

Begin HostCollectives::reduce(const Call& c, WorkState& work) {
  // On its way to root, data is summed in a copy. Root can sum in x itself, unless sums are in f32.
  const bool is_root = rank_ == c->root;
  const bool in_place = is_root && !Sums::are_wide(c->x.dtype(), c->op);
  const auto sums = std::make_shared<Sums>(c->x, c->op);
  if (is_root && !in_place) work.finish = [=] { sums->give(c->x); };
  return [=, this](ChunkBuffer& scratch) {
    const Tensor& x = c->x;
    const RingOptions ring = ring_of(*c);
    void* data = in_place ? x.data_ptr() : sums->take();
    if (is_small(x))
      return tree_reduce(*transport_, scratch, data, x.numel(), sums->dtype(), c->op, c->root,
                         ring.tag);
    return chain_reduce(*transport_, scratch, data, x.numel(), sums->dtype(), c->op, c->root, ring);
  };
}

Begin HostCollectives::broadcast(const Call& c) {
  return [=, this](ChunkBuffer& scratch) {
    const Tensor& x = c->x;
    const RingOptions ring = ring_of(*c);
    if (is_small(x))
      return tree_broadcast(*transport_, scratch, x.data_ptr(), bytes_of(x), c->root, ring.tag);
    return chain_broadcast(*transport_, scratch, x.data_ptr(), bytes_of(x), c->root, ring);
  };
}

// In shared memory the comparison has already waited for all ranks.
Begin HostCollectives::barrier(const Call& c) {
  return [=, this, in_memory = memory_ != nullptr](ChunkBuffer&) {
    return in_memory ? nullptr : dist::barrier(*transport_, c->signature.tag());
  };
}

}  // namespace rondo::dist
