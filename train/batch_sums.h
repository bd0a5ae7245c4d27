#pragma once
// BatchSums: sums over batches and ranks, each with the number of items in it. They are on the
// device, so adding a batch does not wait for it, and a captured graph can add batches.
// evaluate and fit divide the two, so a smaller last batch counts less.

#include <mutex>
#include <vector>

#include "dist/collectives/communicator.h"
#include "tensor/tensor.h"
#include "train/evaluate.h"

namespace rondo::train {

class BatchSums {
 public:
  struct Sum {
    double value = 0, count = 0;
    double mean() const { return count > 0 ? value / count : 0; }
  };

  BatchSums(std::int64_t size, Device device);
  std::size_t size() const { return static_cast<std::size_t>(sums_.size(0)); }

  /// Adds one element each. A value whose count is 0 is ignored, even if it is NaN, because the
  /// mean of no items is. Shards call this concurrently.
  void add(std::int64_t which, const Tensor& value, const Tensor& count);
  /// Sums `which`: correct predictions of the counted targets.
  void add_correct(std::int64_t which, const Tensor& output, const Tensor& target);
  /// Adds a batch to the sums `first`, first + 1, …, one for each metric.
  void add_metrics(std::int64_t first, const std::vector<Metric>& metrics, const Tensor& output,
                   const Tensor& target);

  /// The sums of all ranks. Waits for the device. Collective.
  std::vector<Sum> total(dist::Communicator& comm) const;
  void set(const std::vector<Sum>& sums);

 private:
  std::mutex mutex_;
  Tensor sums_;  // (size, 2), f64
};

/// The number of targets that count, one element: if the targets are classes, those that are not
/// negative; otherwise the samples.
Tensor count_of(const Tensor& output, const Tensor& target);

}  // namespace rondo::train
