#pragma once
// ZeroSharding: splits the optimizer's state into one part for each rank (ZeRO stage 1: Rajbhandari
// et al. 2020).
//
//   dist::DistributedDataParallel ddp(model, comm);
//   dist::ZeroSharding zero(ddp);
//   optim::Adam adam(zero.parameters(), {.lr = 1e-3});   // only of this rank's part
//   ...
//   loss.backward();   // buckets are reduce-scattered meanwhile
//   adam.step();
//   zero.gather();     // all ranks have all parameters again
//
// Under DDP each rank keeps Adam's two moments of every parameter, and all ranks compute the same
// step. Here each rank does so for 1 / N of the elements. An all-reduce is a reduce-scatter
// followed by an all-gather, and the step is between the two, so the same number of bytes is sent.
// The results are the same if the optimizer works element by element (Optimizer::is_elementwise).
// Optimizers that need whole parameters (LARS, LAMB, Muon, LBFGS) are refused. The norm of the
// gradients needs all of them, too: use clip_grad_norm below.

#include <memory>
#include <vector>

#include "dist/data_parallel/ddp.h"
#include "optim/optimizer.h"

namespace rondo::dist {

class ZeroSharding {
 public:
  /// Registers as ddp's comm hook, and moves the model's parameters into its own memory. Construct
  /// it after the model was moved to its device, and before the optimizer. `ddp` must outlive this
  /// object. Throws CommError if a rank would have no elements, and for options of DDP that it does
  /// not support. Collective.
  explicit ZeroSharding(DistributedDataParallel& ddp);
  ~ZeroSharding();
  ZeroSharding(const ZeroSharding&) = delete;
  ZeroSharding& operator=(const ZeroSharding&) = delete;

  /// This rank's pieces of parameters, one-dimensional, with the parameters' names. A parameter on
  /// the border of two ranks' parts has a piece on both. The pieces share memory with the
  /// parameters. After each backward the pieces' gradients are averages over the ranks, and the
  /// parameters themselves have no gradients. Gradients of several backwards accumulate until
  /// `gather`, or zero_grad of the optimizer or of ddp (the model's own does not reach the pieces).
  std::vector<nn::NamedTensor> named_parameters() const;
  Tensors parameters() const;

  /// In an optimizer that was made for the model's parameters, replaces each parameter by this
  /// rank's pieces of it, in the same group. For options that differ between groups, and for
  /// programs that make the optimizer first. Frozen parameters stay as they are. Throws Error if
  /// the optimizer needs whole parameters, has state, or has a trainable parameter that is not one
  /// of ddp's.
  void shard(optim::Optimizer& optimizer) const;

  /// Call it after the optimizer's step: every rank gets the elements that the others have updated.
  /// Throws Error after a backward if nothing has the pieces or has changed them, as if the
  /// optimizer was made for the model's parameters. (A step of your own that writes through
  /// data_ptr calls Tensor::bump_version.) Collective.
  void gather();

  /// Scales the gradients so that their norm over all ranks' pieces is at most max_norm. Returns
  /// the norm before scaling, as optim::clip_grad_norm does for whole parameters. Collective.
  double clip_grad_norm(double max_norm);

 private:
  class Hook;
  std::shared_ptr<Hook> hook_;
  Communicator& comm_;
};

}  // namespace rondo::dist
