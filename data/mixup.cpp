#include "data/mixup.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tensor/backend.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace rondo::data {
namespace {

/// The random numbers of one batch.
class MixDraws {
 public:
  MixDraws(std::uint64_t seed, const BatchContext& context)
      : philox_{.seed = seed, .stream = mix_streams + context.draw.epoch},
        next_(static_cast<std::uint64_t>(context.batch) << 20) {}

  /// Above 0 and at most 1.
  double uniform() { return 1 - uniform_double(philox_.word64(next_++)); }
  std::int64_t below(std::int64_t range) {
    return static_cast<std::int64_t>(
        uniform_below(philox_.word64(next_++), static_cast<std::uint64_t>(range)));
  }
  /// From Beta(alpha, alpha), as the share of one of two gamma variables in their sum. Logarithms,
  /// because for a small alpha both may be too small for a double.
  double beta(double alpha) {
    const double a = log_gamma(alpha), b = log_gamma(alpha);
    return 1 / (1 + std::exp(b - a));
  }

 private:
  double normal() {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// The logarithm of a number from Gamma(alpha, 1) (Marsaglia and Tsang 2000).
  double log_gamma(double alpha) {
    if (alpha < 1) return log_gamma(alpha + 1) + std::log(uniform()) / alpha;
    const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal(), root = 1 + c * x, v = root * root * root;
      if (v > 0 && std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v))
        return std::log(d * v);
    }
  }

  Philox philox_;
  std::uint64_t next_;
};

Tensor rows(const Tensor& x, std::int64_t first, std::int64_t count) {
  Dims sizes = x.shape();
  sizes[0] = count;
  return x.as_view(sizes, x.strides(), x.storage_offset() + first * x.strides()[0]);
}

/// Row i is row i - 1 of x; the first row of each group is the group's last.
Tensor rolled(const Tensor& x, std::int64_t group) {
  const Tensor y = Tensor::empty_like(x);
  for (std::int64_t first = 0; first < x.size(0); first += group) {
    const std::int64_t count = std::min(group, x.size(0) - first);
    backend(x).copy(rows(x, first, count - 1), rows(y, first + 1, count - 1));
    backend(x).copy(rows(x, first + count - 1, 1), rows(y, first, 1));
  }
  return y;
}

/// lambda · x + (1 − lambda) · partner.
Tensor mixed(const Tensor& x, const Tensor& partner, double lambda) {
  const Tensor y = Tensor::empty_like(x), other = Tensor::empty_like(x);
  backend(x).unary(UnaryOp::mul_scalar, x, y, {.alpha = lambda});
  backend(x).unary(UnaryOp::mul_scalar, partner, other, {.alpha = 1 - lambda});
  backend(x).binary(BinaryOp::add, other, y, y);
  return y;
}

/// x, or a copy of it on another device.
Tensor on(Device device, const Tensor& x) {
  if (x.device() == device) return x;
  const Tensor y = Tensor::empty(x.shape(), {.dtype = x.dtype(), .device = device});
  backend(x.device().is_cpu() ? y : x).copy(x, y);
  return y;
}

/// The targets as probabilities (N, C).
Tensor probabilities(const Batch& batch, const char* name, std::int64_t classes) {
  const Tensor& target = batch.target;
  if (is_floating(target.dtype())) {
    require<ShapeError>(target.dim() == 2, name, ": targets of shape ", target.shape(),
                        " are not probabilities of classes, (N, C)");
    return target;
  }
  require<DTypeError>(target.dtype() == i64 && target.dim() == 1, name, ": targets ",
                      target.shape(), " of ", target.dtype(),
                      " are neither classes, i64 (N), nor their probabilities (N, C)");
  require(classes > 0, name, ": num_classes is ", classes,
          ", but must be the number of classes, because the targets are classes");
  const std::int64_t count = target.size(0);
  const DType dtype = batch.input.dtype() == f64 ? f64 : f32;
  const Tensor one_hot = Tensor::empty({count, classes}, {.dtype = dtype});
  backend(one_hot).fill(one_hot, 0.0);
  const auto labels = on(Device::cpu(), target).to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = labels[static_cast<std::size_t>(i)];
    require(0 <= label && label < classes, name, ": row ", i, " has class ", label,
            ", but there are ", classes, " classes");
    const Tensor one = one_hot.as_view({}, {}, i * classes + label);
    backend(one).fill(one, 1.0);
  }
  return on(target.device(), one_hot);
}

void check_options(const char* name, const MixOptions& options) {
  require(std::isfinite(options.alpha) && options.alpha > 0, name, ": alpha is ", options.alpha,
          ", but must be finite and positive");
  require(options.group >= 0, name, ": group is ", options.group, ", but must not be negative");
}

void check_batch(const char* name, const Batch& batch) {
  require<DTypeError>(is_floating(batch.input.dtype()), name, ": the inputs are ",
                      batch.input.dtype(), ", but must be floating-point; use ToFloat before it");
}

std::int64_t group_of(const MixOptions& options, const Batch& batch) {
  return options.group > 0 ? options.group : std::max<std::int64_t>(batch.size(), 1);
}

}  // namespace

Transform mixup(MixOptions options) {
  check_options("mixup", options);
  return [options](Batch batch, const BatchContext& context) -> Batch {
    check_batch("mixup", batch);
    const Tensor target = probabilities(batch, "mixup", options.num_classes);
    const double lambda = MixDraws(options.seed, context).beta(options.alpha);
    const std::int64_t group = group_of(options, batch);
    return {mixed(batch.input, rolled(batch.input, group), lambda),
            mixed(target, rolled(target, group), lambda)};
  };
}

Transform cutmix(MixOptions options) {
  check_options("cutmix", options);
  return [options](Batch batch, const BatchContext& context) -> Batch {
    check_batch("cutmix", batch);
    const Tensor& x = batch.input;
    require<ShapeError>(x.dim() == 4 && x.size(2) > 0 && x.size(3) > 0, "cutmix: inputs ",
                        x.shape(), " are not images (N, C, H, W)");
    const Tensor target = probabilities(batch, "cutmix", options.num_classes);
    MixDraws draws(options.seed, context);
    const double half = 0.5 * std::sqrt(1 - draws.beta(options.alpha));
    struct Side {
      std::int64_t begin, end;
    };
    const auto side = [&](std::int64_t size) {
      const std::int64_t centre = draws.below(size);
      const auto reach = static_cast<std::int64_t>(half * static_cast<double>(size));
      return Side{std::max<std::int64_t>(centre - reach, 0), std::min(centre + reach, size)};
    };
    const Side across = side(x.size(3)), down = side(x.size(2));
    const Dims box{x.size(0), x.size(1), down.end - down.begin, across.end - across.begin};
    const auto cut = [&](const Tensor& images) {
      return images.as_view(box, images.strides(),
                            images.storage_offset() + down.begin * images.strides()[2] +
                                across.begin * images.strides()[3]);
    };
    const std::int64_t group = group_of(options, batch);
    const Tensor y = Tensor::empty_like(x);
    backend(x).copy(x, y);
    backend(x).copy(cut(rolled(x, group)), cut(y));
    const double lambda =
        1 - static_cast<double>(box[2] * box[3]) / static_cast<double>(x.size(2) * x.size(3));
    return {y, mixed(target, rolled(target, group), lambda)};
  };
}

}  // namespace rondo::data
