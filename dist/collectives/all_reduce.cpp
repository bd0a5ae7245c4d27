// All-reduce: which way it goes, and the job that goes it.

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
#include "dist/collectives/communicator.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/device_collectives.h"
#include "dist/collectives/progress.h"
#include "dist/collectives/sums.h"
#include "dist/collectives/tuner.h"
#include "dist/transports/shared_memory/node_memory.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Of a signature: ranks that ask for different ways would not meet.
std::int8_t way_of(AllReduce algorithm) {
  return algorithm == AllReduce::automatic ? -1 : static_cast<std::int8_t>(algorithm);
}

/// What the ranks' memory does where there is any.
bool is_for_memory(AllReduce algorithm) {
  return algorithm == AllReduce::automatic || algorithm == AllReduce::shared;
}

std::unique_ptr<Operation> all_reduce_in(NodeMemory& memory, Transport& transport, Scratch& scratch,
                                         const Signature& signature, const Tensor& x, ReduceOp op) {
  return shared_all_reduce(memory.space, memory, memory.peers, transport, scratch, signature,
                           x.data_ptr(), x.numel(), x.dtype(), op);
}

constexpr std::array names = {"auto",         "shared",  "direct",   "tree",
                              "doubling",     "halving", "pairwise", "ring",
                              "hierarchical", "nccl",    "mpi",      "mpi_blocking"};

/// Those that add up all ranks' numbers at once, bf16 and f16 in f32, and carry no sums of some.
bool adds_up_at_once(AllReduce way) {
  return way == AllReduce::direct || way == AllReduce::pairwise;
}

bool is_mpis(AllReduce way) { return way == AllReduce::mpi || way == AllReduce::mpi_blocking; }

}  // namespace

const char* name_of(AllReduce way) { return names.at(static_cast<std::size_t>(way)); }

AllReduce parse_all_reduce(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  std::string all;
  for (const char* known : names) all += concat(all.empty() ? "" : ", ", known);
  require<CommError>(found != names.end(), "\"", name, "\" is no all-reduce; there are ", all);
  return static_cast<AllReduce>(found - names.begin());
}

// What M machines of L ranks each have for each other is less in f32, of sums that each has formed,
// than in 16 bits, of all ranks' own numbers, where L is more than 2: 2 (M - 1) / M of the data
// from each machine, times 2, or times L.
void Communicator::set_node_of(std::vector<int> node_of) {
  std::map<int, int> ranks;
  for (const int node : node_of) ++ranks[node];
  has_levels_ = ranks.size() > 1 && std::ranges::any_of(ranks, [](const auto& node_and_ranks) {
                  return node_and_ranks.second > 2;
                });
  options_.node_of = std::move(node_of);
}

/// What `automatic` means for messages. Every rank comes to the same, from what all have measured
/// together or from the size alone. Nothing is measured here: an asynchronous collective does not
/// wait for the other ranks.
AllReduce Communicator::choose(const Tensor& x, ReduceOp op) const {
  const std::size_t bytes = bytes_of(x), others = static_cast<std::size_t>(world_size_ - 1);
  const bool are_wide = Sums::are_wide(x.dtype(), op);
  const auto is_good = [&](AllReduce way) {
    return are_wide ? adds_up_at_once(way)
                    : way != AllReduce::mpi || transport_->has_native_all_reduce(x.dtype(), op);
  };
  const auto fastest = tuner_ ? tuner_->fastest(bytes, is_good) : std::nullopt;
  if (are_wide) {
    const bool is_small = bytes * others <= options_.small_bytes;
    const AllReduce way = fastest.value_or(is_small ? AllReduce::direct : AllReduce::pairwise);
    return way == AllReduce::pairwise && has_levels_ ? AllReduce::hierarchical : way;
  }
  if (fastest) return *fastest;
  return bytes * static_cast<std::size_t>(std::bit_width(others)) <= options_.small_bytes
             ? AllReduce::recursive_doubling
             : AllReduce::ring;
}

Communicator::Job Communicator::all_reduce_job(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  const bool in_memory = memory_ != nullptr && is_for_memory(algorithm);
  require<CommError>(in_memory || algorithm != AllReduce::shared || world_size_ == 1,
                     "all_reduce: shared memory was asked for, but the ranks share none: ",
                     "they are on several machines or in several containers, or nobody has called "
                     "share_memory");
  require<CommError>(!is_mpis(algorithm) || std::strcmp(backend(), "mpi") == 0 || world_size_ == 1,
                     "all_reduce: MPI's own was asked for, but the backend is ", backend());
  const bool mpi_lacks_it = is_mpis(algorithm) && !transport_->has_native_all_reduce(x.dtype(), op);
  const bool is_free = (algorithm == AllReduce::automatic && !in_memory) || mpi_lacks_it;
  const AllReduce way = is_free ? choose(x, op) : algorithm;
  x.bump_version();
  std::string name = title("all_reduce");
  Signature signature = signature_of("all_reduce", x, op);
  signature.way = way_of(algorithm);
  RingOptions ring = next_ring(signature);
  if (in_memory) {
    auto begin = [=, this, memory = memory_](Scratch& scratch) {
      return all_reduce_in(*memory, *transport_, scratch, signature, x, op);
    };
    return {.name = std::move(name),
            .begin = std::move(begin),
            .keep = memory_,
            .signature = signature,
            .is_checked = true};
  }
  if (Sums::are_wide(x.dtype(), op) && !adds_up_at_once(way)) {
    const auto sums = std::make_shared<Sums>(x, op);
    return {.name = std::move(name),
            .begin =
                [=, this](Scratch& scratch) {
                  return all_reduce_by(way, scratch, sums->take(), x.numel(), sums->dtype(), op,
                                       ring);
                },
            .finish = [=] { sums->give(x); },
            .keep = sums,
            .signature = signature};
  }
  return {.name = std::move(name),
          .begin =
              [=, this](Scratch& scratch) {
                return all_reduce_by(way, scratch, x.data_ptr(), x.numel(), x.dtype(), op, ring);
              },
          .signature = signature};
}

void Communicator::tune(std::size_t bytes) {
  if (!options_.tune || world_size_ == 1 || memory_ != nullptr) return;
  const Label label(*this, "tuning");
  if (tuner_ == nullptr) tuner_ = std::make_unique<Tuner>(*this, options_.tuning_file);
  tuner_->learn(bytes);
}

std::unique_ptr<Operation> Communicator::all_reduce_by(AllReduce way, Scratch& scratch, void* data,
                                                       std::int64_t count, DType dtype, ReduceOp op,
                                                       const RingOptions& ring) const {
  if (world_size_ == 1 || count == 0) return nullptr;
  Transport& t = *transport_;
  switch (way) {
    case AllReduce::direct:
      return direct_all_reduce(t, scratch, data, count, dtype, op, ring.tag);
    case AllReduce::tree:
      return tree_all_reduce(t, scratch, data, count, dtype, op, ring.tag);
    case AllReduce::recursive_doubling:
      return recursive_doubling_all_reduce(t, scratch, data, count, dtype, op, ring.tag);
    case AllReduce::halving_doubling:
      return halving_doubling_all_reduce(t, scratch, data, count, dtype, op, ring.tag);
    case AllReduce::pairwise:
      return pairwise_all_reduce(t, scratch, data, count, dtype, op, {.tag = ring.tag});
    case AllReduce::hierarchical: {
      const std::vector<int> one_node(static_cast<std::size_t>(world_size_));
      return hierarchical_all_reduce(t, scratch, data, count, dtype, op,
                                     node_of().empty() ? one_node : node_of(), ring);
    }
    case AllReduce::mpi:
    case AllReduce::mpi_blocking:
      if (auto native = t.native_all_reduce(data, count, dtype, op, way == AllReduce::mpi_blocking))
        return native;
      [[fallthrough]];
    default:
      return ring_all_reduce(t, scratch, data, count, dtype, op, ring);
  }
}

Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  if (!is_on_gpu("all_reduce", x)) {
    require<CommError>(algorithm != AllReduce::nccl, "all_reduce: NCCL was asked for, but the ",
                       "tensor is on the CPU");
    return start(all_reduce_job(x, op, algorithm));
  }
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  x.bump_version();
  Signature signature = signature_of("all_reduce", x, op);
  signature.way = way_of(algorithm);
  DeviceCall call = next_call(signature);
  if (world_size_ == 1 || x.numel() == 0) return {};
  return compared(signature, [&] { return gpu_->all_reduce(std::move(call), x, op, algorithm); });
}
Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op) {
  // What is NCCL's on the GPU is ours on the CPU.
  const bool is_nccl = options_.all_reduce == AllReduce::nccl;
  const bool on_cpu = x.defined() && x.device().is_cpu();
  return all_reduce_async(x, op, is_nccl && on_cpu ? AllReduce::automatic : options_.all_reduce);
}
// In memory, and with nothing under way: without a job, a queue or a name.
bool Communicator::all_reduce_now(const Tensor& x, ReduceOp op) {
  if (memory_ == nullptr || !is_for_memory(options_.all_reduce)) return false;
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  const std::uint64_t sequence = sequence_;
  Signature signature = signature_of("all_reduce", x, op);
  signature.way = way_of(options_.all_reduce);
  const bool ran = progress_->run_now(
      rank_in_world(), x.impl_ptr(), signature, about_,
      [&](Scratch& scratch) {
        return all_reduce_in(*memory_, *transport_, scratch, signature, x, op);
      },
      [&] { return title("all_reduce", sequence); });
  if (!ran) return false;
  ++sequence_;
  x.bump_version();
  return true;
}

void Communicator::all_reduce(const Tensor& x, ReduceOp op) {
  if (is_on_gpu("all_reduce", x)) return all_reduce_async(x, op).wait();
  if (all_reduce_now(x, op)) return;
  run(all_reduce_job(
      x, op, options_.all_reduce == AllReduce::nccl ? AllReduce::automatic : options_.all_reduce));
}

}  // namespace rondo::dist
