#pragma once
// CommHook: what DDP does with a full bucket instead of a plain average.
//
//   ddp.register_comm_hook(dist::make_comm_hook("powersgd:4"));
//
// Each hook saves bytes by sending less than the gradients. The lost part remains on the rank and
// is added to the next step's gradients ("error feedback": Seide et al. 2014, Karimireddy et al.
// 2019), except in hooks that only round. dist/data_parallel/hooks has one file for each hook.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

/// Gradients that are sent together, contiguous in memory.
struct GradBucket {
  std::size_t index = 0;
  Tensor flat;  // one dimension
  struct Slice {
    std::int64_t offset = 0;  // in flat
    Dims shape;               // the parameter's shape, its outermost dimension in memory first
    nn::NamedTensor parameter;
  };
  std::vector<Slice> slices;
  Tensor padded;  // flat and the elements after it: an equal number for each rank
};

class CommHook {
 public:
  virtual ~CommHook() = default;
  /// "powersgd".
  virtual const char* name() const = 0;
  /// Called once, with all buckets, before the first backward. Throws DTypeError or DeviceError if
  /// the hook does not support the buckets.
  virtual void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) = 0;

  // A step has several rounds. Round 0 of a bucket starts when its gradients are complete, during
  // backward. Later rounds start after backward, each when the round before is complete. All rounds
  // run in the order of the buckets, so all ranks issue the same collectives in the same order.
  virtual int rounds() const { return 1; }
  /// Starts a round's collectives.
  virtual std::vector<Work> start(int round, const GradBucket& bucket, Communicator& comm) = 0;
  /// Called when all rounds are complete: writes the average to bucket.flat.
  virtual void finish(const GradBucket& bucket, Communicator& comm) = 0;

  /// The step is given up (zero_grad, abandon_step): drops its gradients, if the hook keeps any
  /// outside of the buckets.
  virtual void drop_step() {}

  /// The first warm_up_steps() steps work differently from all later ones. A step that is captured
  /// into a graph must come after them.
  virtual std::int64_t warm_up_steps() const { return 0; }

  /// What the hook remembers from step to step on this rank, for checkpoints; shares memory with
  /// it.
  const nn::StateDict& state() const { return state_; }

  /// The bytes that this rank had to send so far, as the minimum that its collectives allow. For S
  /// bytes and N ranks these are 2 (N - 1) / N S for an all-reduce, half of that for a
  /// reduce-scatter, and (N - 1) S for an all-gather or all-to-all. Transport::bytes_sent counts
  /// the bytes actually sent.
  std::int64_t least_bytes() const { return least_bytes_; }

 protected:
  // These collectives add to least_bytes.
  Work all_reduce(Communicator& comm, const Tensor& x, ReduceOp op = ReduceOp::sum);
  /// Averages over the ranks.
  Work reduce_scatter(Communicator& comm, const Tensor& out, const Tensor& x);
  Work all_gather(Communicator& comm, const Tensor& out, const Tensor& x);
  Work all_to_all(Communicator& comm, const Tensors& from, const Tensors& to);

  /// `prepare` calls it for each tensor that is part of state().
  void remember(const char* name, const GradBucket& bucket, const Tensor& tensor);
  /// For hooks with a kernel for f32 on the CPU only. Throws DeviceError, DTypeError.
  void require_f32_on_cpu(const GradBucket& bucket) const;

 private:
  std::int64_t least_bytes_ = 0;
  nn::StateDict state_;
};

/// Makes the hook "fp16", "bf16", "topk[:RATIO]" (0.01), "powersgd[:RANK]" (2), "sign" or "int8".
/// Throws CommError that lists these names.
std::shared_ptr<CommHook> make_comm_hook(const std::string& text);

}  // namespace rondo::dist
