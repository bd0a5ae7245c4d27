#pragma once
// The available implementations of all-reduce, by name.

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::dist {

/// Which implementation runs: the memory that ranks of one machine share
/// (dist/transports/shared_memory); one of rondo's own algorithms over messages
/// (dist/collectives/algorithms); MPI_Iallreduce, polled; or MPI_Allreduce itself (for benchmarks:
/// no deadline can interrupt it). For dtypes that MPI lacks (bf16, f16, bool), the MPI values act
/// like `automatic`. On a GPU: ncclAllReduce, rondo's ring over NCCL's messages, or MPI through the
/// host's memory.
///
/// On the CPU, sums of bf16 and f16 are formed in f32 and rounded once, in every implementation:
/// `direct`, `pairwise` and shared memory add all ranks' values at once; the others send f32, which
/// is twice the bytes. (NCCL, and a ring over its messages, round each addition.)
///
/// `automatic` is NCCL on a GPU. On the CPU it is shared memory if the ranks share it. Otherwise it
/// is what Communicator::tune found fastest. For a size that was not tuned, it is recursive
/// doubling up to CommunicatorOptions::small_bytes sent, and the ring above. For bf16 and f16 it is
/// the faster of `direct` and `pairwise`, or `hierarchical` if that sends less between machines.
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
const char* name_of(AllReduce algorithm);
/// Parses one of these names; throws CommError for anything else.
AllReduce parse_all_reduce(std::string_view name);

}  // namespace rondo::dist
