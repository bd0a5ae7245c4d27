#pragma once
// TrainStep: what a training loop does with one batch, and what became of its loss.
//
// Forward, loss, backward (DDP averages the gradients meanwhile), optimizer. Of several batches the
// gradients are added up, and the step is that of all of them together. On a GPU nothing of it
// makes the host wait: losses arrive some steps later and are taken when they are there. With a
// graph, the first steps run as they are; when some in a row had batches of one shape, the next is
// captured and launched for every further batch of that shape (tensor/cuda_graph.h). Others, like
// an epoch's smaller last batch, still run as they are.

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "dist/data_parallel/ddp.h"
#include "dist/data_parallel/reproducible.h"
#include "dist/data_parallel/zero.h"
#include "nn/module.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "tensor/async_copy.h"
#include "tensor/cuda_graph.h"
#include "train/overlap.h"
#include "train/trace.h"

namespace rondo::train {

struct TrainStepOptions {
  nn::Module& model;
  optim::Optimizer& optimizer;
  /// Null: the ranks' gradients are not averaged.
  dist::DistributedDataParallel* ddp = nullptr;
  /// With ddp, and an optimizer that it has sharded: after each step all ranks get all parameters.
  dist::ZeroSharding* zero = nullptr;
  /// Instead of ddp: the same bits on any number of ranks.
  dist::ReproducibleDataParallel* reproducible = nullptr;
  /// (model output, target) to a mean over the batch; none: cross_entropy.
  std::function<Tensor(const Tensor&, const Tensor&)> criterion = {};
  /// Forward runs under autocast to this type (autograd/autocast.h).
  std::optional<DType> amp = {};
  /// Scales the loss, and leaves out steps whose gradients are not finite: for f16.
  optim::GradScaler* scaler = nullptr;
  /// Captures the step; the model must be on a GPU.
  bool graph = false;
  int rank = 0;  // for messages
  Trace* trace = nullptr;
  Overlap* overlap = nullptr;  // adds up DDP's
};

class TrainStep {
 public:
  /// Throws DeviceError where a graph is wanted and the model is not on a GPU.
  explicit TrainStep(TrainStepOptions options);

  /// One batch. Throws Error when a loss that has arrived is not finite, on all ranks alike under
  /// DDP; where() ends the sentence.
  void operator()(const data::Batch& batch, const std::function<std::string()>& where) {
    (*this)(std::span(&batch, 1), where);
  }
  /// The same with one step for several batches (DDP's `accumulate`): a batch's mean gradient
  /// counts as many times as it has samples, so that the step is that of one batch of all of them,
  /// as far as no layer mixes a batch's samples. Of several ranks the means are averaged, each with
  /// the same weight; those that have not joined have as many batches. Throws Error for
  /// more than one with `reproducible` or `graph`.
  void operator()(std::span<const data::Batch> batches, const std::function<std::string()>& where);
  /// The end of a step on a rank that had no batch, whose gradients are there (DDP's `join`).
  void update();
  /// The losses since the last call, oldest first, as far as they have arrived, or all when `wait`
  /// says so; under DDP means over the ranks.
  std::vector<double> take_losses(bool wait = false);

 private:
  void run_reproducibly(const data::Batch& batch, const std::function<std::string()>& where);
  void run(std::span<const data::Batch> batches, const std::function<std::string()>& where);
  Tensor forward(const data::Batch& batch) const;
  void backward_with_ddp(const Tensor& loss, const Tensor& scaled);
  bool fits_graph(const data::Batch& batch) const;
  std::int64_t warm_up_steps() const;
  std::uint64_t collectives() const;  // so far, of DDP's communicator
  void capture(const data::Batch& batch);
  void check_losses(const std::function<std::string()>& where, bool wait);

  TrainStepOptions options_;
  std::deque<AsyncCopy> arriving_;  // without DDP
  std::vector<double> losses_;
  Tensor loss_;  // of the last batch
  // The graph, where it reads its batch, and where it leaves its loss.
  std::optional<cuda::Graph> graph_;
  Tensor input_, target_, graph_loss_;
  // Steps without a graph so far, one after the other, with batches of this shape.
  std::int64_t steps_before_graph_ = 0;
  Dims warm_shape_;
  std::uint64_t collectives_in_graph_ = 0;
};

}  // namespace rondo::train
