#pragma once
// mixup and cutmix: transforms that mix each sample of a batch with its predecessor (the first with
// the last), as torchvision.transforms.v2.MixUp and CutMix do. Their targets are probabilities of
// classes, which cross_entropy takes.
//
//   data::Transform train = data::compose({augment, data::mixup({.alpha = 0.2, .num_classes =
//   10})});
//
// All samples of a batch share one λ, drawn from Beta(alpha, alpha). λ and cutmix's rectangle are
// functions of (seed, epoch, number of the batch), so all ranks draw the same, and resuming needs
// no state. The partners are samples of the rank's own batch. With MixOptions::group equal to the
// rows of a shard, a reproducible run (data::ShardedBatches) does not depend on the number of
// ranks.

#include <cstdint>

#include "data/loader.h"

namespace rondo::data {

struct MixOptions {
  double alpha = 1;              // 1: λ is uniform; smaller: most often close to 0 or 1
  std::int64_t num_classes = 0;  // not needed if the targets are probabilities
  std::uint64_t seed = 0;
  /// Each group of so many rows is mixed by itself; 0: the whole batch is one group.
  std::int64_t group = 0;
};

/// x_i ← λ x_i + (1 − λ) x_{i−1}, and the same for the targets (Zhang et al. 2018). Takes any
/// floating-point inputs, and targets i64 (N) or probabilities (N, C). Throws Error for an alpha
/// that is not positive and a negative group. The transform throws DTypeError or ShapeError for
/// other batches, and Error for a class outside 0 … num_classes − 1.
Transform mixup(MixOptions options);

/// Replaces a rectangle of each image (N, C, H, W) by the same rectangle of x_{i−1}. Its centre is
/// uniform in the image, its sides are √(1 − λ) times those of the image, and the part outside is
/// cut off. The targets are mixed as in mixup, where λ is the share of the image that is kept (Yun
/// et al. 2019). Throws as mixup does.
Transform cutmix(MixOptions options);

}  // namespace rondo::data
