#pragma once
// TrainStep: one training step for one or more batches, and its loss.
//
// A step is forward, loss, backward (DDP averages the gradients at the same time) and optimizer.
// With several batches, the gradients are summed, and the step is that of all batches together. On
// a GPU the host never waits: losses arrive some steps later and are collected then.
// With `graph`, the first steps run without a graph. After a few consecutive steps with batches of
// one shape, the next step is captured, and the graph is launched for every further batch of that
// shape (tensor/cuda_graph.h). Other batches, such as a smaller last batch of an epoch, still run
// without the graph.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "dist/data_parallel/ddp.h"
#include "nn/module.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "tensor/cuda_graph.h"
#include "train/gradient_sync.h"
#include "train/overlap.h"
#include "train/trace.h"

namespace rondo::train {

struct TrainStepOptions {
  nn::Module& model;
  optim::Optimizer& optimizer;
  /// Averages the gradients over the ranks. Null: they stay on the rank.
  dist::DistributedDataParallel* ddp = nullptr;
  /// Another strategy, instead of ddp.
  GradientSync* sync = nullptr;
  /// Maps (model output, target) to the mean loss of the batch; empty: cross_entropy.
  std::function<Tensor(const Tensor&, const Tensor&)> criterion = {};
  /// Called with the model's output and the target of each batch, without recording. With `graph`
  /// it must not wait for the device. Shards call it concurrently.
  std::function<void(const Tensor&, const Tensor&)> observe = {};
  /// Scales the gradients before the optimizer's step; may be infinite. 0: off.
  double max_grad_norm = 0;
  /// Called with the norm before scaling, if max_grad_norm is not 0.
  std::function<void(const Tensor&)> observe_norm = {};
  /// Forward runs under autocast to this type (autograd/autocast.h).
  std::optional<DType> amp = {};
  /// Scales the loss, and skips steps whose gradients are not finite. For f16.
  optim::GradScaler* scaler = nullptr;
  /// Captures the step; the model must be on a GPU.
  bool graph = false;
  int rank = 0;  // for messages
  TimelineTrace* trace = nullptr;
  Overlap* overlap = nullptr;  // sums the timelines of DDP
};

class TrainStep {
 public:
  /// Throws DeviceError if `graph` is set and the model is not on a GPU.
  explicit TrainStep(TrainStepOptions options);

  /// A step with one batch. Throws Error if a loss that has arrived is not finite (under DDP, on
  /// all ranks). The error message ends with where().
  void operator()(const data::Batch& batch, const std::function<std::string()>& where) {
    (*this)(std::span(&batch, 1), where);
  }
  /// One step with several batches (DDP's `accumulate`). The mean gradient of each batch is
  /// weighted by its number of samples, so the step equals one with a single batch of all samples,
  /// if no layer mixes the samples of a batch and no target is ignored. The means of the ranks are
  /// averaged with equal weights; ranks that have not joined must have the same number of batches.
  /// Throws Error for more than one batch with `graph` or in reproducible training.
  void operator()(std::span<const data::Batch> batches, const std::function<std::string()>& where);
  /// The end of a step on a rank that had no batch. Its gradients come from the other ranks (DDP's
  /// `join`).
  void update();
  /// The losses that arrived since the last call, oldest first; if `wait`, all losses. Under DDP
  /// they are means over the ranks.
  std::vector<double> take_losses(bool wait = false);

 private:
  Tensor run(std::span<const data::Batch> batches, const std::function<std::string()>& where);
  /// Clips the gradients and updates the parameters.
  void optimize();
  bool fits_graph(const data::Batch& batch) const;
  std::int64_t warm_up_steps() const;
  void capture(const data::Batch& batch);

  TrainStepOptions options_;
  std::unique_ptr<GradientSync> own_sync_;
  GradientSync* sync_;
  Tensors untrained_;  // their gradients would otherwise grow from step to step
  // The graph, its input batch, and its loss.
  std::optional<cuda::Graph> graph_;
  Tensor input_, target_, graph_loss_;
  // Consecutive steps without a graph so far, with batches of this shape.
  std::int64_t steps_before_graph_ = 0;
  Dims warm_shape_;
};

}  // namespace rondo::train
