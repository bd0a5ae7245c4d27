#pragma once
// How much each batch of a step counts. Private to train/sync.

#include <span>

#include "autograd/ops/arithmetic.h"
#include "data/dataset.h"

namespace rondo::train {

/// The number of samples in all batches.
inline double samples_of(std::span<const data::Batch> batches) {
  double samples = 0;
  for (const data::Batch& batch : batches) samples += static_cast<double>(batch.size());
  return samples;
}

/// loss · weight; the loss itself for a weight of 1.
inline Tensor weighted(const Tensor& loss, double weight) {
  return weight == 1 ? loss : loss * weight;
}

}  // namespace rondo::train
