#pragma once
// ZeroSharding: an optimizer's state cut into parts, one for each rank (ZeRO's first stage:
// Rajbhandari et al. 2020).
//
//   dist::DistributedDataParallel ddp(model, comm);
//   dist::ZeroSharding zero(ddp);
//   optim::Adam adam(zero.parameters(), {.lr = 1e-3});   // of this rank's part alone
//   ...
//   loss.backward();   // buckets are reduce-scattered while it runs
//   adam.step();
//   zero.gather();     // all ranks have all parameters again
//
// Under DDP each rank keeps Adam's two moments of every parameter, and all compute the same step.
// Here each does so for 1 / N of the elements: an all-reduce is a reduce-scatter and an all-gather,
// and the step lies between the two, so as many bytes travel. What is computed is the same, as all
// that optimizers here do is done element by element. A gradient's norm is not: clip_grad_norm.

#include <memory>
#include <vector>

#include "dist/data_parallel/ddp.h"
#include "optim/optimizer.h"

namespace rondo::dist {

class ZeroSharding {
 public:
  /// Registers as ddp's comm hook, and moves the model's parameters into memory of its own: after
  /// the model is on its device, before the optimizer is made. `ddp` must outlive this. Throws
  /// CommError where a rank would have nothing, and for options of DDP that it does not know.
  /// Collective.
  explicit ZeroSharding(DistributedDataParallel& ddp);
  ~ZeroSharding();
  ZeroSharding(const ZeroSharding&) = delete;
  ZeroSharding& operator=(const ZeroSharding&) = delete;

  /// This rank's pieces of parameters, one dimension each, with the parameters' names: a parameter
  /// that lies on the border of two ranks' parts has a piece on both. They share memory with the
  /// parameters. After each backward their gradients are averages over the ranks, and the
  /// parameters themselves have none. Those of several backwards add up until `gather` or
  /// zero_grad.
  std::vector<nn::NamedTensor> named_parameters() const;
  Tensors parameters() const;

  /// Gives an optimizer that was made for the model's parameters this rank's pieces of them in
  /// their place, each in its parameter's group: for options that differ between groups, and for
  /// programs that had the optimizer first. Throws Error where it has state, or a parameter that is
  /// trained but not by `ddp`; those that are frozen stay as they are.
  void shard(optim::Optimizer& optimizer) const;

  /// After the optimizer's step: every rank gets what the others have changed. Collective.
  void gather();

  /// Scales the gradients so that their norm over all ranks' pieces is at most max_norm, and
  /// returns what it was. Collective. As optim::clip_grad_norm does for whole parameters.
  double clip_grad_norm(double max_norm);

 private:
  class Hook;
  std::shared_ptr<Hook> hook_;
  Communicator& comm_;
};

}  // namespace rondo::dist
