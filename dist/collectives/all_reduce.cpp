// All-reduce: chooses the implementation, and makes the job that runs it.

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

/// The part of a signature that names the implementation: it must be equal on all ranks.
std::int8_t number_of(AllReduce algorithm) {
  return algorithm == AllReduce::automatic ? -1 : static_cast<std::int8_t>(algorithm);
}

/// Whether shared memory does it, if the ranks share memory.
bool is_for_memory(AllReduce algorithm) {
  return algorithm == AllReduce::automatic || algorithm == AllReduce::shared;
}

std::unique_ptr<Operation> all_reduce_in(NodeMemory& memory, Transport& transport,
                                         ChunkBuffer& scratch, const Signature& signature,
                                         const Tensor& x, ReduceOp op) {
  return shared_all_reduce(memory.space, memory, memory.peers, transport, scratch, signature,
                           x.data_ptr(), x.numel(), x.dtype(), op);
}

constexpr std::array names = {"auto",         "shared",  "direct",   "tree",
                              "doubling",     "halving", "pairwise", "ring",
                              "hierarchical", "nccl",    "mpi",      "mpi_blocking"};

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
void Communicator::set_node_of(std::vector<int> node_of) {
  std::map<int, int> ranks;
  for (const int node : node_of) ++ranks[node];
  has_levels_ = ranks.size() > 1 && std::ranges::any_of(ranks, [](const auto& node_and_ranks) {
                  return node_and_ranks.second > 2;
                });
  options_.node_of = std::move(node_of);
}

/// What `automatic` chooses for messages. It depends only on the common measurements or on the
/// size, so it is equal on all ranks. It does not measure anything: an asynchronous collective does
/// not wait for the other ranks.
AllReduce Communicator::choose(const Tensor& x, ReduceOp op) const {
  const std::size_t bytes = bytes_of(x), others = static_cast<std::size_t>(world_size_ - 1);
  const bool are_wide = Sums::are_wide(x.dtype(), op);
  const auto is_good = [&](AllReduce algorithm) {
    return are_wide
               ? adds_up_at_once(algorithm)
               : algorithm != AllReduce::mpi || transport_->has_native_all_reduce(x.dtype(), op);
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

Communicator::Job Communicator::all_reduce_job(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  const bool in_memory = memory_ != nullptr && is_for_memory(algorithm);
  require<CommError>(in_memory || algorithm != AllReduce::shared || world_size_ == 1,
                     "all_reduce: shared memory was requested, but the ranks share none: ",
                     "they are on several machines or in several containers, or share_memory "
                     "was not called");
  require<CommError>(!is_mpis(algorithm) || std::strcmp(backend(), "mpi") == 0 || world_size_ == 1,
                     "all_reduce: MPI's own all-reduce was requested, but the backend is ",
                     backend());
  const bool mpi_lacks_it = is_mpis(algorithm) && !transport_->has_native_all_reduce(x.dtype(), op);
  const bool is_free = (algorithm == AllReduce::automatic && !in_memory) || mpi_lacks_it;
  const AllReduce chosen = is_free ? choose(x, op) : algorithm;
  x.bump_version();
  std::string name = title("all_reduce");
  Signature signature = signature_of("all_reduce", x, op);
  signature.algorithm = number_of(algorithm);
  RingOptions ring = next_ring(signature);
  if (in_memory) {
    auto begin = [=, this, memory = memory_](ChunkBuffer& scratch) {
      return all_reduce_in(*memory, *transport_, scratch, signature, x, op);
    };
    return {.name = std::move(name),
            .begin = std::move(begin),
            .keep = memory_,
            .signature = signature,
            .is_checked = true};
  }
  if (Sums::are_wide(x.dtype(), op) && !adds_up_at_once(chosen)) {
    const auto sums = std::make_shared<Sums>(x, op);
    return {.name = std::move(name),
            .begin =
                [=, this](ChunkBuffer& scratch) {
                  return all_reduce_by(chosen, scratch, sums->take(), x.numel(), sums->dtype(), op,
                                       ring);
                },
            .finish = [=] { sums->give(x); },
            .keep = sums,
            .signature = signature};
  }
  return {.name = std::move(name),
          .begin =
              [=, this](ChunkBuffer& scratch) {
                return all_reduce_by(chosen, scratch, x.data_ptr(), x.numel(), x.dtype(), op, ring);
              },
          .signature = signature};
}

void Communicator::tune(std::size_t bytes) {
  if (!options_.tune || world_size_ == 1 || memory_ != nullptr) return;
  const Label label(*this, "tuning");
  if (tuner_ == nullptr) tuner_ = std::make_unique<Tuner>(*this, options_.tuning_file);
  tuner_->learn(bytes);
}

std::unique_ptr<Operation> Communicator::all_reduce_by(AllReduce algorithm, ChunkBuffer& scratch,
                                                       void* data, std::int64_t count, DType dtype,
                                                       ReduceOp op, const RingOptions& ring) const {
  if (world_size_ == 1 || count == 0) return nullptr;
  Transport& t = *transport_;
  switch (algorithm) {
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
      if (auto native =
              t.native_all_reduce(data, count, dtype, op, algorithm == AllReduce::mpi_blocking))
        return native;
      [[fallthrough]];
    default:
      return ring_all_reduce(t, scratch, data, count, dtype, op, ring);
  }
}

Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  if (!is_on_gpu("all_reduce", x)) {
    require<CommError>(algorithm != AllReduce::nccl, "all_reduce: NCCL was requested, but the ",
                       "tensor is on the CPU");
    return start(all_reduce_job(x, op, algorithm));
  }
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  x.bump_version();
  Signature signature = signature_of("all_reduce", x, op);
  signature.algorithm = number_of(algorithm);
  DeviceCall call = next_call(signature);
  if (world_size_ == 1 || x.numel() == 0) return {};
  return compared(signature, [&] { return gpu_->all_reduce(std::move(call), x, op, algorithm); });
}
Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op) {
  // Tensors on the CPU cannot use NCCL: choose automatically.
  const bool is_nccl = options_.all_reduce == AllReduce::nccl;
  const bool on_cpu = x.defined() && x.device().is_cpu();
  return all_reduce_async(x, op, is_nccl && on_cpu ? AllReduce::automatic : options_.all_reduce);
}
// In shared memory, if nothing else is under way: without a job, a queue or a name.
bool Communicator::all_reduce_now(const Tensor& x, ReduceOp op) {
  if (memory_ == nullptr || !is_for_memory(options_.all_reduce)) return false;
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  const std::uint64_t sequence = sequence_;
  Signature signature = signature_of("all_reduce", x, op);
  signature.algorithm = number_of(options_.all_reduce);
  const bool ran = progress_->run_now(
      rank_in_world(), x.impl_ptr(), signature, about_,
      [&](ChunkBuffer& scratch) {
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
