#include "train/batch_sums.h"

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::train {
namespace {

/// Whether the output (N, C, …) has a score for each class and the target (N, …) is a class. One
/// column, C = 1, has no choice of classes: it is the logit of a binary criterion, or a regression.
bool are_classes(const Tensor& output, const Tensor& target) {
  if (is_floating(target.dtype()) || target.dtype() == boolean || output.dim() < 2) return false;
  if (output.size(1) < 2) return false;
  Dims scored{output.size(0)};
  for (std::int64_t d = 2; d < output.dim(); ++d) scored.push_back(output.size(d));
  return target.shape() == scored;
}

Tensor samples_in(const Tensor& target) {
  return full({1}, target.size(0), {.dtype = f64, .device = target.device()});
}

}  // namespace

Tensor count_of(const Tensor& output, const Tensor& target) {
  return are_classes(output, target) ? sum(ge(target, 0)).to(f64) : samples_in(target);
}

BatchSums::BatchSums(std::int64_t size, Device device)
    : sums_(zeros({size, 2}, {.dtype = f64, .device = device})) {}

void BatchSums::add(std::int64_t which, const Tensor& value, const Tensor& count) {
  const NoGradGuard no_grad;
  const Tensor items = count.detach().reshape({1}).to(f64);
  const Tensor counted = where(gt(items, 0), value.detach().reshape({1}).to(f64), 0.0);
  const std::lock_guard lock(mutex_);
  const Tensor sum = sums_.select(0, which);
  sum.narrow(0, 0, 1).add_(counted);
  sum.narrow(0, 1, 1).add_(items);
}

void BatchSums::add_correct(std::int64_t which, const Tensor& output, const Tensor& target) {
  const NoGradGuard no_grad;
  if (!are_classes(output, target)) return;
  add(which, sum(eq(argmax(output, 1), target)), count_of(output, target));
}

void BatchSums::add_metrics(std::int64_t first, const std::vector<Metric>& metrics,
                            const Tensor& output, const Tensor& target) {
  const NoGradGuard no_grad;
  for (const Metric& metric : metrics) {
    const Tensor mean = metric.function(output, target);
    const Tensor count = metric.count ? metric.count(output, target) : samples_in(target);
    require<ShapeError>(mean.numel() == 1, "the metric ", metric.name, " of a batch has shape ",
                        mean.shape(), ", but must be one number");
    require<ShapeError>(count.numel() == 1, "the count of the metric ", metric.name,
                        " for a batch has shape ", count.shape(), ", but must be one number");
    add(first++, mean.reshape({1}).to(f64) * count.reshape({1}).to(f64), count);
  }
}

std::vector<BatchSums::Sum> BatchSums::total(dist::Communicator& comm) const {
  const NoGradGuard no_grad;
  const Tensor all = sums_.clone();
  comm.all_reduce(all);
  const auto numbers = all.to(Device::cpu()).to_vector<double>();
  std::vector<Sum> sums;
  for (std::size_t i = 0; i < numbers.size(); i += 2) sums.push_back({numbers[i], numbers[i + 1]});
  return sums;
}

void BatchSums::set(const std::vector<Sum>& sums) {
  const NoGradGuard no_grad;
  std::vector<double> numbers;
  for (const Sum& sum : sums) numbers.insert(numbers.end(), {sum.value, sum.count});
  sums_.copy_(tensor(numbers).reshape(sums_.shape()).to(sums_.device()));
}

}  // namespace rondo::train
