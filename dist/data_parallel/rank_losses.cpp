#include "dist/data_parallel/rank_losses.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"
#include "tensor/cuda_graph.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::size_t most_untaken = 10000;  // means that take_means has not returned
constexpr std::size_t most_on_the_way = 16;
constexpr std::uint64_t missed_cycle = 16;  // the count is sent modulo this: 16-bit floats hold it

/// The loss as an element of a bucket. f16 ends at 65504, so large finite losses are clamped: they
/// must not become infinite.
Tensor as_element(const Tensor& loss, DType dtype) {
  if (dtype != f16) return loss.to(dtype);
  return where(isfinite(loss), clamp(loss, -60000.0, 60000.0), loss).to(dtype);
}

}  // namespace

std::string loss_is(double loss) {
  return concat("the loss is ", std::isnan(loss) ? std::abs(loss) : loss);
}

RankLosses::RankLosses(int rank, std::vector<int> ranks_in_world)
    : rank_(rank),
      in_world_(std::move(ranks_in_world)),
      losses_(in_world_.size(), 0.0),
      is_active_(in_world_.size(), 1.0),
      missed_(in_world_.size(), 0.0) {}

void RankLosses::keep() {
  NoGradGuard no_grad;
  if (loss_.defined()) earlier_ = earlier_.defined() ? earlier_ + loss_ : loss_.clone();
}

void RankLosses::write(const Tensor& place, int micro_batches, bool has_joined,
                       std::uint64_t missed) {
  const std::int64_t n = std::ssize(losses_);
  place.zero_();
  if (has_joined) return;
  place.narrow(0, n + rank_, 1).fill_(1.0);
  place.narrow(0, 2 * n + rank_, 1).fill_(static_cast<double>(missed % missed_cycle));
  if (!loss_.defined()) return;
  const Tensor loss = earlier_.defined() ? (loss_ + earlier_) * (1.0 / micro_batches) : loss_;
  place.narrow(0, rank_, 1).copy_(as_element(loss, place.dtype()));
}

void RankLosses::averaged(const Tensor& place) {
  place_ = place;
  if (cuda::is_capturing()) return;
  replayed();
}

void RankLosses::replayed() {
  arriving_.emplace_back(place_);
  take();
}

void RankLosses::take(bool wait) {
  while (!arriving_.empty() &&
         (wait || arriving_.front().is_ready() || arriving_.size() > most_on_the_way)) {
    const auto values = arriving_.front().get().to_vector<double>();
    const std::size_t n = losses_.size();
    for (std::size_t r = 0; r < n; ++r) {
      losses_[r] = values[r] * static_cast<double>(n);
      is_active_[r] = std::round(values[n + r] * static_cast<double>(n));
      missed_[r] = std::round(values[2 * n + r] * static_cast<double>(n));
    }
    arriving_.pop_front();
    means_.push_back(mean());
    const bool is_bad =
        std::ranges::any_of(losses_, [](double loss) { return !std::isfinite(loss); });
    if (is_bad && bad_.empty()) bad_ = losses_;  // the first one counts
  }
}

void RankLosses::check_in_step() const {
  const auto first =
      static_cast<std::size_t>(std::ranges::find(is_active_, 1.0) - is_active_.begin());
  for (std::size_t r = first; r < missed_.size(); ++r) {
    if (is_active_[r] != 1 || missed_[r] == missed_[first]) continue;
    // The count is sent modulo missed_cycle: r is ahead by less than half of it, or `first` is.
    const double ahead = std::fmod(missed_[r] - missed_[first] + missed_cycle, missed_cycle);
    throw CommError(concat(
        "the ranks are out of step: a backward of rank ",
        in_world_[ahead < missed_cycle / 2.0 ? r : first],
        " reached no parameter of the model, so that it averaged no gradients; every rank's loss "
        "must depend on the output of the model. A forward whose output only one rank looks at "
        "belongs under NoGradGuard, or to the model itself rather than to DDP"));
  }
}

bool RankLosses::is_nobody_active() const {
  return std::ranges::all_of(is_active_, [](double active) { return active == 0; });
}

double RankLosses::mean() const {
  double sum = 0, active = 0;
  for (double loss : losses_) sum += loss;
  for (double is_active : is_active_) active += is_active;
  return active > 0 ? sum / active : 0;
}

std::vector<double> RankLosses::take_means(bool wait) {
  take(wait);
  return std::exchange(means_, {});
}

void RankLosses::check(const std::function<std::string()>& where) {
  take();
  if (means_.size() > most_untaken) means_.erase(means_.begin(), means_.begin() + most_untaken / 2);
  const std::vector<double> losses = std::exchange(bad_, {});
  for (std::size_t r = 0; r < losses.size(); ++r) {
    if (!std::isfinite(losses[r]))
      throw Error(concat(loss_is(losses[r]), " on rank ", in_world_[r], where ? where() : ""));
  }
}

}  // namespace rondo::dist
