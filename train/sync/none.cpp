// Gradients stay on the rank. Losses are copied to the host without waiting.

#include <cmath>
#include <deque>
#include <utility>

#include "tensor/async_copy.h"
#include "tensor/cuda_graph.h"
#include "tensor/error.h"
#include "train/gradient_sync.h"
#include "train/sync/weights.h"

namespace rondo::train {
namespace {

/// The most losses on their way to the host.
constexpr std::size_t most_on_the_way = 16;

class LocalSync final : public GradientSync {
 public:
  explicit LocalSync(int rank) : rank_(rank) {}

  Tensor backward(const Step& step) override {
    const double samples = samples_of(step.batches);
    Tensor sum;
    for (const data::Batch& batch : step.batches) {
      Tensor loss = step.loss(batch);
      if (&batch == step.batches.data()) step.zero_grad();
      loss = weighted(loss, static_cast<double>(batch.size()) / samples);
      const Tensor scaled = step.scaled(loss);
      sum = sum.defined() ? sum + loss.detach() : loss.detach();
      const TimelineTrace::Span span(step.trace, "backward");
      scaled.backward();
    }
    if (!cuda::is_capturing()) {
      arriving_.emplace_back(sum);
      check_losses(step.where, false);
    }
    return sum;
  }

  std::vector<double> take_losses(bool wait) override {
    check_losses({}, wait);
    return std::exchange(losses_, {});
  }

  void replayed(const Tensor& loss, const std::function<std::string()>& where) override {
    arriving_.emplace_back(loss);
    check_losses(where, false);
  }

 private:
  void check_losses(const std::function<std::string()>& where, bool wait) {
    while (!arriving_.empty() &&
           (wait || arriving_.front().is_ready() || arriving_.size() > most_on_the_way)) {
      const auto value = arriving_.front().get().item<double>();
      arriving_.pop_front();
      losses_.push_back(value);
      if (!std::isfinite(value))
        throw Error(concat(dist::loss_is(value), " on rank ", rank_, where ? where() : ""));
    }
  }

  int rank_;
  std::deque<AsyncCopy> arriving_;
  std::vector<double> losses_;
};

}  // namespace

std::unique_ptr<GradientSync> no_sync(int rank) { return std::make_unique<LocalSync>(rank); }

}  // namespace rondo::train
