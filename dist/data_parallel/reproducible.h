#pragma once
// ReproducibleDataParallel: training that is bit-identical on 1, 2, 4, … ranks.
//
//   dist::ReproducibleDataParallel parallel(model, comm, {.shards = 8});
//   for (auto& [images, labels] : loader) {         // this rank's part: data::ShardedBatches
//     optimizer.zero_grad();
//     double loss = parallel.backward(images, labels);  // .grad becomes the mean over all shards
//     optimizer.step();
//   }
//
// Floating-point sums depend on their order. In DDP this order depends on the number of ranks: one
// rank sums over 128 images, where two ranks sum over 64 images each and then add. The last digits
// differ, and after a thousand steps so do the first ones.
//
// Note [Shards]
// Therefore the batch is cut into L logical shards, for any number of ranks; L is a power of two.
// Each shard is computed independently, on one thread: its forward, its batch norm's statistics,
// its gradients and its random numbers depend on nothing but the shard. Then gradients are added
// along one binary tree,
//
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)),
//
// and divided by L. The number of ranks n must be a power of two, at most L. Each rank has L / n
// neighbouring shards. They form a subtree, which the rank adds alone. The rest of the tree is
// recursive halving and doubling over the ranks (dist/collectives/algorithms). So every addition
// has the same two operands, wherever it is done. Running statistics become the mean over the
// shards, along the same tree; losses likewise.
//
// Costs: a shard's batch is smaller, and each layer runs on a single thread; a rank stores a
// gradient for each of its shards; communication starts only after backward; and the all-reduces of
// shared memory and of NCCL are not used, since they add in another order. docs/results/ranks.md
// has figures. Results are bit-identical only on machines with the same instruction set and
// libraries.

#include <functional>
#include <memory>
#include <vector>

#include "dist/collectives/communicator.h"
#include "dist/data_parallel/model_check.h"
#include "dist/data_parallel/replica.h"
#include "nn/module.h"

namespace rondo::dist {

struct ReproducibleOptions {
  int shards = 8;
  /// Threads that compute shards concurrently; 0: as many as OpenMP has.
  int threads = 0;
};

class ReproducibleDataParallel {
 public:
  /// Maps (model output, target) to the mean loss of a shard.
  using Criterion = std::function<Tensor(const Tensor&, const Tensor&)>;
  /// Maps a shard's loss to the loss that its backward starts from (GradScaler::scale).
  using Scaled = std::function<Tensor(const Tensor&)>;

  /// Ensures that all ranks have the same model, and gives them rank 0's values. The model must
  /// outlive this object and be on the CPU. Throws CommError if the number of shards or ranks is
  /// not a power of two, if there are fewer shards than ranks, or if a batch norm sums over ranks.
  /// Collective.
  ReproducibleDataParallel(nn::AnyModule& model, std::shared_ptr<Communicator> comm,
                           ReproducibleOptions options = {});
  ~ReproducibleDataParallel();

  /// Runs forward and backward of this rank's shards: equal parts of the rows of `input` and
  /// `target`. The first part is shard rank * L / n. Afterwards the parameters' .grad is the mean
  /// over all shards, bit-identical on all ranks, and so are running statistics. Returns the mean
  /// loss. The default criterion is cross_entropy; without `scaled`, backward starts from the loss.
  /// Shards call both concurrently. The default generator must have the same state
  /// on all ranks; it is advanced by L * 2^16 streams. Throws ShapeError if the rows cannot be
  /// divided by the rank's shards, CommError naming a parameter that a shard's backward did not
  /// reach, and whatever the model throws. Collective.
  double backward(const Tensor& input, const Tensor& target, const Criterion& criterion = {},
                  const Scaled& scaled = {});
  /// The losses of all shards in the last backward; equal on all ranks.
  const std::vector<double>& losses() const { return losses_; }
  int shards() const { return options_.shards; }

 private:
  class Team;
  /// All tensors of one dtype that are summed over the shards.
  struct ShardSums {
    DType dtype;
    Tensors of_shard;  // flat, one for each of this rank's shards
  };
  /// One of this rank's shards.
  struct Shard {
    ModuleTensors members;  // share the model's parameters; have gradients and buffers of their own
    Tensors slots;          // the parameters' gradients in the sums
    Tensors buffers;        // floating-point buffers in the sums; undefined for other buffers
  };

  void lay_out();
  void compute(Shard& shard, std::size_t index, const nn::AnyModule& replica, const Tensor& input,
               const Tensor& target, const Criterion& criterion, const Scaled& scaled,
               std::uint64_t first_stream);
  void add_up(const ShardSums& sums);
  void hand_over();

  nn::AnyModule& model_;
  std::shared_ptr<Communicator> comm_;
  ReproducibleOptions options_;
  KnownParameters known_;
  ModuleTensors members_;           // of the model
  std::vector<std::string> names_;  // of its parameters
  std::vector<ShardSums> sums_;
  ShardSums loss_sums_;
  std::vector<Shard> shards_;
  std::vector<double> losses_;
  std::unique_ptr<Team> team_;
  bool is_checked_ = false;  // whether a backward has checked that visit shows all tensors
};

}  // namespace rondo::dist
