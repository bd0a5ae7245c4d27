#pragma once
// The ways to do an all-reduce, by name.

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::dist {

/// Who does it: the memory that ranks of one machine share (dist/transports/shared_memory); one of
/// rondo's own algorithms over messages (dist/collectives/algorithms); MPI_Iallreduce, polled; or
/// (for benchmarks: no deadline can interrupt it) MPI_Allreduce itself. What MPI lacks (bf16, f16,
/// bool) goes as if it were `automatic`. On a GPU: ncclAllReduce, rondo's ring over NCCL's
/// messages, or MPI by way of the host's memory.
///
/// On the CPU sums of bf16 and f16 are formed in f32 and rounded once, in every way: `direct`,
/// `pairwise` and shared memory add up all ranks' numbers at once, the others carry f32, which are
/// twice the bytes. (NCCL, and a ring over its messages, round each addition.)
///
/// `automatic` is NCCL on a GPU; on the CPU shared memory; and where there is none what
/// Communicator::tune found fastest, or, of a size that it was not asked about, recursive doubling
/// up to CommunicatorOptions::small_bytes sent, and else the ring. Of bf16 and f16 it is the faster
/// of `direct` and `pairwise`; or `hierarchical`, where that has less to carry between machines.
enum class AllReduce : std::uint8_t {
  automatic,
  shared,
  direct,
  tree,
  recursive_doubling,
  halving_doubling,
  pairwise,
  ring,
  hierarchical,
  nccl,
  mpi,
  mpi_blocking
};

/// "auto", "shared", "direct", "tree", "doubling", "halving", "pairwise", "ring", "hierarchical",
/// "nccl", "mpi" or "mpi_blocking".
const char* name_of(AllReduce way);
/// Reads one of these; throws CommError on anything else.
AllReduce parse_all_reduce(std::string_view name);

}  // namespace rondo::dist
