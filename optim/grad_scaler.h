#pragma once
// GradScaler: keeps the gradients of f16 training away from zero. As torch.amp.GradScaler.
//
//   optim::GradScaler scaler(Device::cuda());
//   optimizer.zero_grad();
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);
//   scaler.update();
//
// Note [Loss scale]
// The smallest f16 is 6e-8, and many a gradient is smaller. So the loss is multiplied by a large
// number before backward, which multiplies all gradients, and they are divided by it before the
// step. Too large a number makes some of them infinite: then the step is left out and the scale
// halved. When there has been none of that for a while, it is doubled.
//
// What overflows in the forward already, so that the loss is not finite, is not its business:
// training loops of rondo end then.
//
// Nothing of this waits for the device: the scale, whether an infinity was found and how many steps
// went well are tensors there, and an optimizer's kernels ask for themselves whether they are to do
// anything.

#include <cstdint>
#include <functional>
#include <map>

#include "nn/module.h"
#include "optim/optimizer.h"
#include "tensor/tensor.h"

namespace rondo::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps without an infinity, then it grows
  /// Where each rank has gradients of its own but all must step together (ZeRO): makes a tensor the
  /// largest of all ranks'. Null: the ranks' gradients are the same, or each steps for itself.
  std::function<void(const Tensor& found_inf)> max_over_ranks = {};
};

class GradScaler {
 public:
  /// For a model on `device`. Throws Error for a scale or interval below 1, a growth factor of 1 or
  /// less, and a backoff factor outside (0, 1).
  explicit GradScaler(Device device = Device::cpu(), GradScalerOptions options = {});

  /// loss times the scale.
  Tensor scale(const Tensor& loss) const;
  /// Divides the gradients of the optimizer's parameters by the scale; for who looks at them before
  /// the step (clip_grad_norm_). Throws Error the second time between two updates, DTypeError for
  /// 16-bit gradients, DeviceError.
  void unscale_(Optimizer& optimizer);
  /// unscale_, unless it was called, and optimizer.step, unless a gradient is infinite or NaN.
  /// Throws Error the second time between two updates.
  void step(Optimizer& optimizer);
  /// The scale for the next step. Throws Error if no gradient was looked at since the last update.
  void update();

  /// Waits for the device.
  double get_scale() const { return scale_.item<double>(); }

  /// "scale" and "growth_tracker", which share memory with this.
  nn::StateDict state_dict() const { return {{"scale", scale_}, {"growth_tracker", tracker_}}; }
  /// Throws Error naming what is missing or does not fit.
  void load_state_dict(const nn::StateDict& state);

 private:
  struct PerOptimizer {
    Tensor found_inf;  // 0 or 1
    bool unscaled = false, stepped = false;
  };

  GradScalerOptions options_;
  Tensor scale_;    // 0-dim, f32
  Tensor tracker_;  // 0-dim, i32: steps since the last infinity or growth
  std::map<const Optimizer*, PerOptimizer> optimizers_;
};

}  // namespace rondo::optim
