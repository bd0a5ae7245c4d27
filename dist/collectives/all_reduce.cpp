// HostCollectives: all-reduce. Chooses the implementation, and makes its operation.

#include "dist/collectives/all_reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "dist/collectives/algorithms/binomial_tree.h"
#include "dist/collectives/algorithms/direct.h"
#include "dist/collectives/algorithms/halving_doubling.h"
#include "dist/collectives/algorithms/hierarchical.h"
#include "dist/collectives/algorithms/pairwise.h"
#include "dist/collectives/algorithms/recursive_doubling.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/host_collectives.h"
#include "dist/collectives/sums.h"
#include "dist/collectives/tuner.h"
#include "dist/transports/shared_memory/node_memory.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::array names = {"auto",         "shared",  "direct",   "tree",
                              "doubling",     "halving", "pairwise", "ring",
                              "hierarchical", "nccl",    "mpi",      "mpi_blocking"};
static_assert(names.size() == static_cast<std::size_t>(AllReduce::mpi_blocking) + 1);

/// Whether the algorithm adds all ranks' values at once (bf16 and f16 in f32) and sends no partial
/// sums.
bool adds_up_at_once(AllReduce algorithm) {
  return algorithm == AllReduce::direct || algorithm == AllReduce::pairwise;
}

bool is_mpis(AllReduce algorithm) {
  return algorithm == AllReduce::mpi || algorithm == AllReduce::mpi_blocking;
}

}  // namespace

const char* name_of(AllReduce algorithm) { return names.at(static_cast<std::size_t>(algorithm)); }

AllReduce parse_all_reduce(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  std::string all;
  for (const char* known : names) all += concat(all.empty() ? "" : ", ", known);
  require<CommError>(found != names.end(), "\"", name, "\" is not an all-reduce; expected one of ",
                     all);
  return static_cast<AllReduce>(found - names.begin());
}

// With 16-bit floats, M machines of L ranks each have two options. Each machine sends 2 (M - 1) / M
// of the data times 2, if its ranks' sum is sent in f32; or times L, if all its ranks' values are
// sent in 16 bits. The first is less if L > 2.
void HostCollectives::set_node_of(std::vector<int> node_of) {
  std::map<int, int> ranks;
  for (const int node : node_of) ++ranks[node];
  has_levels_ = ranks.size() > 1 && std::ranges::any_of(ranks, [](const auto& node_and_ranks) {
                  return node_and_ranks.second > 2;
                });
  options_.node_of = std::move(node_of);
}

void HostCollectives::check(const Collective& c) const {
  if (c.kind != Kind::all_reduce) return;
  require<CommError>(c.algorithm != AllReduce::nccl, "all_reduce: NCCL was requested, but the ",
                     "tensor is on the CPU");
  require<CommError>(
      memory_ != nullptr || c.algorithm != AllReduce::shared || world_size_ == 1,
      "all_reduce: shared memory was requested, but the ranks share none: ",
      "they are on several machines or in several containers, or share_memory was not called");
  require<CommError>(
      !is_mpis(c.algorithm) || std::strcmp(transport_->name(), "mpi") == 0 || world_size_ == 1,
      "all_reduce: MPI's own all-reduce was requested, but the backend is ", transport_->name());
}

/// Whether shared memory does it.
bool HostCollectives::is_in_memory(const Collective& c) const {
  return c.kind == Kind::all_reduce && memory_ != nullptr &&
         (c.algorithm == AllReduce::automatic || c.algorithm == AllReduce::shared);
}

std::unique_ptr<Operation> HostCollectives::all_reduce_in(NodeMemory& memory, const Collective& c,
                                                          ChunkBuffer& scratch) const {
  return shared_all_reduce(memory.space, memory, memory.peers, *transport_, scratch, c.signature,
                           c.x.data_ptr(), c.x.numel(), c.x.dtype(), c.op);
}

/// What `automatic` chooses for messages. It depends only on the common measurements or on the
/// size, so it is equal on all ranks. It does not measure anything: an asynchronous collective does
/// not wait for the other ranks.
AllReduce HostCollectives::choose(const Collective& c) const {
  const DType dtype = c.x.dtype();
  const std::size_t bytes = bytes_of(c.x), others = static_cast<std::size_t>(world_size_ - 1);
  const bool are_wide = Sums::are_wide(dtype, c.op);
  const auto is_good = [&](AllReduce algorithm) {
    return are_wide ? adds_up_at_once(algorithm)
                    : algorithm != AllReduce::mpi || transport_->has_native_all_reduce(dtype, c.op);
  };
  const auto fastest = tuner_ ? tuner_->fastest(bytes, is_good) : std::nullopt;
  if (are_wide) {
    const bool is_small = bytes * others <= options_.small_bytes;
    const AllReduce algorithm =
        fastest.value_or(is_small ? AllReduce::direct : AllReduce::pairwise);
    return algorithm == AllReduce::pairwise && has_levels_ ? AllReduce::hierarchical : algorithm;
  }
  if (fastest) return *fastest;
  return bytes * static_cast<std::size_t>(std::bit_width(others)) <= options_.small_bytes
             ? AllReduce::recursive_doubling
             : AllReduce::ring;
}

Begin HostCollectives::all_reduce(const Call& c, WorkState& work) {
  if (is_in_memory(*c))
    return [=, this, memory = memory_](ChunkBuffer& scratch) {
      return all_reduce_in(*memory, *c, scratch);
    };
  const bool mpi_lacks_it =
      is_mpis(c->algorithm) && !transport_->has_native_all_reduce(c->x.dtype(), c->op);
  const AllReduce chosen =
      c->algorithm == AllReduce::automatic || mpi_lacks_it ? choose(*c) : c->algorithm;
  if (!Sums::are_wide(c->x.dtype(), c->op) || adds_up_at_once(chosen)) {
    return [=, this](ChunkBuffer& scratch) {
      return all_reduce_by(chosen, scratch, c->x.data_ptr(), c->x.dtype(), *c);
    };
  }
  const auto sums = std::make_shared<Sums>(c->x, c->op);
  work.finish = [=] { sums->give(c->x); };
  return [=, this](ChunkBuffer& scratch) {
    return all_reduce_by(chosen, scratch, sums->take(), sums->dtype(), *c);
  };
}

void HostCollectives::tune(Communicator& comm, std::size_t bytes) {
  if (!options_.tune || world_size_ == 1 || memory_ != nullptr) return;
  if (tuner_ == nullptr) tuner_ = std::make_unique<Tuner>(comm, options_.tuning_file);
  tuner_->learn(bytes);
}

std::unique_ptr<Operation> HostCollectives::all_reduce_by(AllReduce algorithm, ChunkBuffer& scratch,
                                                          void* data, DType dtype,
                                                          const Collective& c) const {
  const std::int64_t count = c.x.numel();
  if (world_size_ == 1 || count == 0) return nullptr;
  Transport& t = *transport_;
  const RingOptions ring = ring_of(c);
  switch (algorithm) {
    case AllReduce::direct:
      return direct_all_reduce(t, scratch, data, count, dtype, c.op, ring.tag);
    case AllReduce::tree:
      return tree_all_reduce(t, scratch, data, count, dtype, c.op, ring.tag);
    case AllReduce::recursive_doubling:
      return recursive_doubling_all_reduce(t, scratch, data, count, dtype, c.op, ring.tag);
    case AllReduce::halving_doubling:
      return halving_doubling_all_reduce(t, scratch, data, count, dtype, c.op, ring.tag);
    case AllReduce::pairwise:
      return pairwise_all_reduce(t, scratch, data, count, dtype, c.op, {.tag = ring.tag});
    case AllReduce::hierarchical: {
      const std::vector<int> one_node(static_cast<std::size_t>(world_size_));
      return hierarchical_all_reduce(t, scratch, data, count, dtype, c.op,
                                     options_.node_of.empty() ? one_node : options_.node_of, ring);
    }
    case AllReduce::mpi:
    case AllReduce::mpi_blocking:
      if (auto native =
              t.native_all_reduce(data, count, dtype, c.op, algorithm == AllReduce::mpi_blocking))
        return native;
      [[fallthrough]];
    case AllReduce::automatic:
    case AllReduce::shared:
    case AllReduce::nccl:
    case AllReduce::ring:
      break;
  }
  return ring_all_reduce(t, scratch, data, count, dtype, c.op, ring);
}

}  // namespace rondo::dist
