#pragma once
// Ema: the exponential moving average of a model's parameters over training, which is often more
// accurate than the parameters themselves. The model keeps training with its own. Buffers, such as
// running statistics, are not averaged.
//
// As optim::AveragedModel with get_ema_multi_avg_fn, without a second copy of the model.

#include "nn/module.h"
#include "optim/swa.h"

namespace rondo::train {

class Ema {
 public:
  /// Throws Error for a decay outside [0, 1].
  Ema(nn::Module& model, double decay);

  /// After step n of the run, counted from 1: average ← decay · average + (1 − decay) · parameter.
  /// The first step copies the parameters.
  void update(std::int64_t n);
  /// The averages by the parameters' names. They share memory with this object.
  const nn::StateDict& averages() const { return averages_; }
  /// The model's state dict with the averages instead of the parameters, as copies.
  nn::StateDict state_dict() const;

  /// While this object lives, the model has the averages.
  class Applied {
   public:
    explicit Applied(const Ema& ema);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    Tensors parameters_, own_;
  };

 private:
  nn::Module& model_;
  optim::MultiAvgFn update_;
  nn::StateDict averages_;
};

}  // namespace rondo::train
