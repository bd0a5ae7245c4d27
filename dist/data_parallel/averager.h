#pragma once
// ParameterAverager: ranks train independently and average their parameters now and then. This is
// the classical use of MPI in training. With an average every k steps it communicates k times less
// than DDP, but the optimisation is no longer equal to that of a single process. Running statistics
// are averaged, too; each rank keeps its own optimizer momentum.
//
//   every k steps   McDonald et al. 2010; Stich 2019, "Local SGD converges fast and communicates
//                   little"
//   post-local      in every step at first, later every k steps: Lin et al. 2020, "Don't use large
//                   mini-batches, use local SGD"
//   hierarchical    often within a machine, seldom between machines: the same paper
//   outer step      the average change of the parameters since the last average is the gradient of
//                   a second optimizer with Nesterov momentum: Douillard et al. 2023, "DiLoCo"
//                     Δ = θ_met - avg θ;   v ← μ v + Δ;   θ = θ_met - lr (Δ + μ v)
//   asynchronous    an average is formed while the following steps are computed, and is applied
//                   when the next average is due: θ ← θ + (avg θ_then - θ_then)

#include <memory>
#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "dist/data_parallel/model_check.h"
#include "nn/module.h"

namespace rondo::dist {

struct AveragerOptions {
  int every = 1;                  // steps between two averages over all ranks
  std::int64_t warmup_steps = 0;  // these first steps are averaged every time
  /// The ranks of a machine (machine_group), averaged among themselves every group_every steps; 0:
  /// never.
  std::shared_ptr<Communicator> group = nullptr;
  int group_every = 0;
  double outer_lr = 1, outer_momentum = 0;  // 1 and 0: the plain average. DiLoCo: 0.7 and 0.9
  bool async = false;
};

class ParameterAverager {
 public:
  /// Compares models and options, and gives every rank rank 0's values. The model must outlive this
  /// object. Collective. Throws CommError if they differ, and for options that cannot be combined:
  /// an asynchronous average with an outer step or a group.
  ParameterAverager(nn::Module& model, std::shared_ptr<Communicator> comm,
                    AveragerOptions options = {});
  /// Waits for the average that is under way.
  ~ParameterAverager();
  ParameterAverager(const ParameterAverager&) = delete;
  ParameterAverager& operator=(const ParameterAverager&) = delete;

  /// Call it after each optimizer step. It averages when an average is due; then it throws
  /// CommError if a parameter or a buffer has been added or replaced. Collective.
  void step();
  /// Averages what has not been averaged yet, and applies an average that is under way. Afterwards
  /// all ranks have equal parameters. Call it before evaluations, before a checkpoint of the whole
  /// model, and at the end. Collective.
  void finish();
  /// The number of steps since the last average over all ranks was due.
  int steps_since_average() const { return since_; }

  /// What a checkpoint must contain in addition to the parameters: counts, the outer step's memory,
  /// and an average under way, which is waited for. The tensors belong to this rank and share
  /// memory with it. Call `restored` after filling them.
  std::vector<nn::NamedTensor> state();
  void restored();

 private:
  /// All tensors of one dtype, in one contiguous buffer that can be sent.
  struct Part {
    Tensors tensors;  // of the model
    Tensor flat;
    Tensor met, velocity;  // of the outer step; met: the parameters after the last average
    Tensor then;           // of an asynchronous average: the values that were sent
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
  void check_model() const;

  std::shared_ptr<Communicator> comm_;
  AveragerOptions options_;
  KnownParameters known_;
  std::vector<Part> parts_;
  std::int64_t steps_ = 0;
  int since_ = 0;
  bool is_under_way_ = false;
  Tensor counts_;  // steps_, since_, is_under_way_: for checkpoints
};

}  // namespace rondo::dist
