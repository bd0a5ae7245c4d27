#pragma once
// CommHook: what DDP does with a full bucket instead of averaging it as it is.
//
//   ddp.register_comm_hook(dist::make_comm_hook("powersgd:4"));
//
// Each saves bytes by sending less than the gradients; what is lost is kept on the rank and added
// to the next step's gradients ("error feedback": Seide et al. 2014, Karimireddy et al. 2019), but
// for those that only round. dist/data_parallel/hooks has one a file.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

/// Gradients that travel together, as they lie one after another in memory.
struct GradBucket {
  std::size_t index = 0;
  Tensor flat;  // one dimension
  struct Slice {
    std::int64_t offset = 0;  // in flat
    Dims shape;               // the parameter's, its outermost dimension in memory first
    nn::NamedTensor parameter;
  };
  std::vector<Slice> slices;
  Tensor padded;  // flat and what follows it in memory: as many elements for each rank
};

class CommHook {
 public:
  virtual ~CommHook() = default;
  /// "powersgd".
  virtual const char* name() const = 0;
  /// Called once, with all buckets, before the first backward. Throws DTypeError or DeviceError for
  /// what it cannot do.
  virtual void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) = 0;

  // A step goes through rounds. Round 0 of a bucket starts when its gradients are complete, while
  // backward goes on; the later ones after backward, when the round before is over. All in order of
  // the buckets, so all ranks issue the same collectives in the same order.
  virtual int rounds() const { return 1; }
  /// Starts a round's collectives.
  virtual std::vector<Work> start(int round, const GradBucket& bucket, Communicator& comm) = 0;
  /// All rounds are over: leaves the average in bucket.flat.
  virtual void finish(const GradBucket& bucket, Communicator& comm) = 0;

  /// For so many steps it does something else than ever after: a step that is captured into a graph
  /// must come later.
  virtual std::int64_t warm_up_steps() const { return 0; }

  /// What it remembers from step to step on this rank, for checkpoints; shares memory with it.
  const nn::StateDict& state() const { return state_; }

  /// What this rank had to send so far, at the least that its collectives allow: of S bytes to N
  /// ranks, 2 (N - 1) / N S for an all-reduce, half of that for a reduce-scatter, (N - 1) S for an
  /// all-gather or all-to-all. What was sent in fact is Transport::bytes_sent.
  std::int64_t least_bytes() const { return least_bytes_; }

 protected:
  // Collectives whose least_bytes are added up.
  Work all_reduce(Communicator& comm, const Tensor& x, ReduceOp op = ReduceOp::sum);
  /// Averages.
  Work reduce_scatter(Communicator& comm, const Tensor& out, const Tensor& x);
  Work all_gather(Communicator& comm, const Tensor& out, const Tensor& x);
  Work all_to_all(Communicator& comm, const Tensors& from, const Tensors& to);

  /// `prepare` names here what is part of state().
  void remember(const char* name, const GradBucket& bucket, const Tensor& tensor);
  /// For hooks that have no other kernel. Throws DeviceError, DTypeError.
  void require_f32_on_cpu(const GradBucket& bucket) const;

 private:
  std::int64_t least_bytes_ = 0;
  nn::StateDict state_;
};

/// "fp16", "bf16", "topk[:RATIO]" (0.01), "powersgd[:RANK]" (2), "sign", "int8". Throws CommError
/// naming what there is.
std::shared_ptr<CommHook> make_comm_hook(const std::string& text);

}  // namespace rondo::dist
