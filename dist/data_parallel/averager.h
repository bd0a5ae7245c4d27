#pragma once
// ParameterAverager: ranks train on their own and meet now and then, where their parameters are
// averaged. The classical use of MPI in training: k times less communication than DDP, for an
// optimisation that is no longer the one of a single process. Running statistics are averaged, too;
// the optimizer's momentum stays each rank's own.
//
//   every k steps   McDonald et al. 2010; Stich 2019, "Local SGD converges fast and communicates
//                   little"
//   post-local      in every step at first, every k steps later: Lin et al. 2020, "Don't use large
//                   mini-batches, use local SGD"
//   hierarchical    often within a machine, seldom between machines: the same paper
//   outer step      what the ranks have moved since they last met, averaged, is a gradient for an
//                   optimizer of its own, Nesterov's momentum: Douillard et al. 2023, "DiLoCo"
//                     Δ = θ_met - avg θ;   v ← μ v + Δ;   θ = θ_met - lr (Δ + μ v)
//   asynchronous    the average of one meeting is formed while the steps up to the next are
//                   computed, and folded in then: θ ← θ + (avg θ_then - θ_then)

#include <memory>
#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

struct AveragerOptions {
  int every = 1;                  // steps between two averages over all ranks
  std::int64_t warmup_steps = 0;  // at first, averaged in every step
  /// The ranks of a machine (machine_group), averaged every group_every steps; 0: never by
  /// themselves.
  std::shared_ptr<Communicator> group = nullptr;
  int group_every = 0;
  double outer_lr = 1, outer_momentum = 0;  // 1 and 0: the plain average. DiLoCo: 0.7 and 0.9
  bool async = false;
};

class ParameterAverager {
 public:
  /// Compares models and options, and gives every rank rank 0's values. Collective. Throws
  /// CommError, also for options that cannot go together: an asynchronous average with an outer
  /// step or a group.
  ParameterAverager(nn::Module& model, std::shared_ptr<Communicator> comm,
                    AveragerOptions options = {});
  /// Waits for the average that is under way.
  ~ParameterAverager();
  ParameterAverager(const ParameterAverager&) = delete;
  ParameterAverager& operator=(const ParameterAverager&) = delete;

  /// After each optimizer step: averages when it is due. Collective.
  void step();
  /// Averages what has not been averaged yet, and folds in what is under way: all ranks have equal
  /// parameters afterwards. Before evaluations, checkpoints of a whole model, and at the end.
  void finish();
  /// Steps since the last average over all ranks was due.
  int steps_since_average() const { return since_; }

  /// What must be kept beside the parameters to go on after a checkpoint: counts, the outer step's
  /// memory, an average under way, which is waited for. Tensors of this rank, which share memory
  /// with it; `restored` says that they have been filled.
  std::vector<nn::NamedTensor> state();
  void restored();

 private:
  /// Everything of one dtype, as one run of memory that can be sent.
  struct Part {
    Tensors tensors;  // of the model
    Tensor flat;
    Tensor met, velocity;  // of the outer step: where it last left them
    Tensor then;           // of an asynchronous average: what was sent
    bool has_outer_step = false;
    Work work;
  };
  void add_parts(const std::vector<nn::NamedTensor>& tensors, bool are_parameters);
  bool has_outer_step() const { return options_.outer_lr != 1 || options_.outer_momentum != 0; }
  void agree_on_options() const;
  void gather(const Part& part) const;
  void spread(const Part& part) const;
  void average(Communicator& comm, bool is_outer);
  void take_outer_step(const Part& part) const;
  void begin_average();
  void fold_in();

  std::shared_ptr<Communicator> comm_;
  AveragerOptions options_;
  std::vector<Part> parts_;
  std::int64_t steps_ = 0;
  int since_ = 0;
  bool is_under_way_ = false;
  Tensor counts_;  // steps_, since_, is_under_way_: for checkpoints
};

}  // namespace rondo::dist
