#pragma once
// GradScaler: prevents gradients from becoming zero in f16 training. As torch.amp.GradScaler.
//
//   optim::GradScaler scaler(Device::cuda());
//   optimizer.zero_grad();
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);
//   scaler.update();
//
// Note [Loss scale]
// The smallest f16 is 6e-8, and many gradients are smaller. So the loss is multiplied by a large
// number, the scale, before backward. That multiplies all gradients, and before the step they are
// divided by the scale again. If the scale is too large, some gradients become infinite: then the
// step is skipped and the scale is halved. After growth_interval steps without an infinite
// gradient, the scale is doubled.
//
// The scaler does not handle a loss that is not finite because the forward overflowed: rondo's
// training loops stop in that case.
//
// The host never waits for the device here. The scale, the flag for infinite gradients and the
// number of good steps are tensors on the device, and the optimizer's kernels read the flag
// themselves.

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
  std::int64_t growth_interval = 2000;  // the scale grows after this many steps without an infinite
                                        // gradient
  /// Needed if each rank has its own gradients but all ranks must skip the same steps (ZeRO). Sets
  /// a tensor to the maximum over all ranks. Null: the ranks have equal gradients, or may skip
  /// steps independently.
  std::function<void(const Tensor& found_inf)> max_over_ranks = {};
};

class GradScaler {
 public:
  /// For a model on `device`. Throws Error for a scale or interval below 1, a growth factor of 1 or
  /// less, and a backoff factor outside (0, 1).
  explicit GradScaler(Device device = Device::cpu(), GradScalerOptions options = {});

  /// Returns loss times the scale.
  Tensor scale(const Tensor& loss) const;
  /// Divides the gradients of the optimizer's parameters by the scale. Call it before code that
  /// reads the gradients before the step (clip_grad_norm_). Throws Error if called twice between
  /// two updates, DTypeError for 16-bit gradients, DeviceError.
  void unscale_(Optimizer& optimizer);
  /// Calls unscale_, unless the caller has done so, and optimizer.step, unless a gradient is
  /// infinite or NaN. Throws Error if called twice between two updates.
  void step(Optimizer& optimizer);
  /// Computes the scale for the next step. Throws Error if neither unscale_ nor step was called
  /// since the last update.
  void update();

  /// The scale. Waits for the device.
  double get_scale() const { return scale_.item<double>(); }

  /// "scale" and "growth_tracker". They share memory with this scaler.
  nn::StateDict state_dict() const { return {{"scale", scale_}, {"growth_tracker", tracker_}}; }
  /// Throws Error naming an entry that is missing or does not match.
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
