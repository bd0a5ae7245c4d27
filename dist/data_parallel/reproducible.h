#pragma once
// ReproducibleDataParallel: training that ends at the same bits on 1, 2, 4, … ranks.
//
//   dist::ReproducibleDataParallel parallel(model, comm, {.shards = 8});
//   for (auto& [images, labels] : loader) {         // this rank's part: data::ShardedBatches
//     optimizer.zero_grad();
//     double loss = parallel.backward(images, labels);  // leaves .grad averaged over all shards
//     optimizer.step();
//   }
//
// Floating-point sums depend on their order, and what DDP adds up, in which order, depends on the
// number of ranks: one rank sums over 128 images where two sum over 64 each and add. The last
// digits differ, and a thousand steps later so do the first.
//
// Note [Shards]
// So the batch is cut into L logical shards, whatever the ranks; L is a power of two. Each shard is
// computed as if it were alone, on one thread: its forward, its batch norm's statistics, its
// gradients, its random numbers depend on nothing but the shard. Then gradients are added up along
// one binary tree,
//
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)),
//
// and divided by L. With n ranks, n a power of two of at most L, a rank has L / n neighbouring
// shards, which are a subtree: it adds that up by itself, and the rest of the tree is recursive
// halving and doubling over the ranks (dist/collectives/algorithms). Every addition is between the
// same two numbers, wherever it is done. Running statistics become the mean over the shards, by the
// same tree; losses likewise.
//
// What it costs: a shard's batch is smaller, and a layer is never computed by several threads; a
// gradient for each shard that a rank has; nothing is communicated before backward has ended; and
// neither shared memory's all-reduce nor NCCL's is used, whose order is theirs. docs/results.md has
// figures. Equal bits are promised on machines with the same instruction set and libraries.

#include <functional>
#include <memory>
#include <vector>

#include "dist/collectives/communicator.h"
#include "dist/data_parallel/replica.h"
#include "nn/module.h"

namespace rondo::dist {

struct ReproducibleOptions {
  int shards = 8;
  /// Threads that compute shards side by side; 0: as many as OpenMP has here.
  int threads = 0;
};

class ReproducibleDataParallel {
 public:
  /// (model output, target) to a mean over the shard.
  using Criterion = std::function<Tensor(const Tensor&, const Tensor&)>;

  /// Makes sure that all ranks have the same model, and gives them rank 0's values. The model must
  /// outlive this and be on the CPU. Throws CommError for numbers of shards or ranks that are no
  /// powers of two, fewer shards than ranks, or a batch norm that sums over ranks. Collective.
  ReproducibleDataParallel(nn::AnyModule& model, std::shared_ptr<Communicator> comm,
                           ReproducibleOptions options = {});
  ~ReproducibleDataParallel();

  /// Forward and backward of this rank's shards: equal parts of the rows of `input` and `target`,
  /// the first for shard rank * L / n. Afterwards the parameters' .grad is the mean over all
  /// shards, the same bits on all ranks, and so are running statistics. Returns the mean loss.
  /// None: cross_entropy. The default generator must be in one state on all ranks; it is left L *
  /// 2^16 streams further. Throws ShapeError when the rows do not divide by the rank's shards,
  /// CommError naming a parameter that a shard's backward did not reach, and what the model throws.
  /// Collective.
  double backward(const Tensor& input, const Tensor& target, const Criterion& criterion = {});
  /// The losses of all shards in the last backward; equal on all ranks.
  const std::vector<double>& losses() const { return losses_; }
  int shards() const { return options_.shards; }

 private:
  class Team;
  /// Everything of one dtype that is added up over the shards.
  struct ShardSums {
    DType dtype;
    Tensors of_shard;  // flat, one for each of this rank's shards
  };
  /// One of this rank's shards.
  struct Shard {
    Members members;  // parameters: the model's memory, gradients of their own; buffers: own
    Tensors slots;    // where parameters' gradients lie in the sums
    Tensors buffers;  // places of floating-point buffers in the sums; undefined for others
  };

  void lay_out();
  void compute(Shard& shard, std::size_t index, const nn::AnyModule& replica, const Tensor& input,
               const Tensor& target, const Criterion& criterion, std::uint64_t first_stream);
  void add_up(const ShardSums& sums);
  void hand_over();

  nn::AnyModule& model_;
  std::shared_ptr<Communicator> comm_;
  ReproducibleOptions options_;
  Members members_;                 // of the model
  std::vector<std::string> names_;  // of its parameters
  std::vector<ShardSums> sums_;
  ShardSums loss_sums_;
  std::vector<Shard> shards_;
  std::vector<double> losses_;
  std::unique_ptr<Team> team_;
  bool is_checked_ = false;  // a backward has found no tensor that no visit shows
};

}  // namespace rondo::dist
