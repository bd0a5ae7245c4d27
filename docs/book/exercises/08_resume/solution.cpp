// The order of an epoch is a function of the seed and the epoch.
#include "exercise.h"

namespace rd = rondo;

Batches::Batches(std::int64_t size, std::int64_t batch_size, std::uint64_t seed)
    : size_(size), batch_size_(batch_size), seed_(seed), generator_(seed), order_(shuffled()) {}

std::vector<std::int64_t> Batches::shuffled() {
  return rd::data::permutation(size_, seed_, at_.epoch);
}

std::vector<std::int64_t> Batches::next() {
  const auto first = order_.begin() + at_.batch * batch_size_;
  std::vector<std::int64_t> batch(first, first + std::min(batch_size_, order_.end() - first));
  if (++at_.batch * batch_size_ >= size_) {
    at_ = {at_.epoch + 1, 0};
    order_ = shuffled();
  }
  return batch;
}

void Batches::resume(Position position) {
  at_ = position;
  order_ = shuffled();
}
