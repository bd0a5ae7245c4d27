#pragma once
// ParameterAverager: ranks train on their own and meet every k steps, where their parameters are
// averaged (McDonald et al. 2010; Stich 2019, "Local SGD converges fast and communicates little").
// The classical use of MPI in training: k times less communication than DDP, for an optimisation
// that is no longer the one of a single process. Running statistics are averaged, too; the
// optimizer's momentum stays each rank's own.

#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

struct AveragerOptions {
  int every = 1;  // steps between two averages
};

class ParameterAverager {
 public:
  /// Compares the models and gives every rank rank 0's values. Collective. Throws CommError.
  ParameterAverager(nn::Module& model, std::shared_ptr<Communicator> comm,
                    AveragerOptions options = {});

  /// After each optimizer step: averages when it is the every-th. Collective.
  void step();
  /// Averages what has not been averaged yet: before evaluations, checkpoints, and at the end.
  void finish();
  /// Steps since the last average: what a checkpoint must keep.
  int steps_since_average() const { return since_; }
  void set_steps_since_average(int steps) { since_ = steps; }

 private:
  void average();

  nn::Module& model_;
  std::shared_ptr<Communicator> comm_;
  int every_, since_ = 0;
};

}  // namespace rondo::dist
