// Dropout of whole channels, and alpha dropout (see activation.h). Both use the choices that
// dropout makes for a tensor of ones.

#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduced.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// x's sizes in its first `kept` dimensions, 1 in the others.
Dims leading_sizes(const Tensor& x, std::int64_t kept) {
  Dims sizes = Dims::filled(x.dim(), 1);
  for (std::int64_t d = 0; d < kept; ++d) sizes[d] = x.size(d);
  return sizes;
}

Tensor channel_dropout(const char* name, const Tensor& x, std::int64_t unbatched, double p,
                       bool training, Generator& generator) {
  const OpRange op(name);
  const std::int64_t rank = unbatched + 1;
  require<ShapeError>(x.dim() == unbatched || x.dim() == rank, name, ": input ", x.shape(),
                      " has neither ", rank, " dimensions nor ", unbatched);
  if (!training || p == 0) return dropout(x, p, training, generator);
  // PyTorch takes three dimensions for (N, C, L) in dropout2d.
  const bool is_batch = x.dim() == rank || unbatched == 3;
  const Dims sizes = leading_sizes(x, is_batch ? 2 : 1);
  return x * dropout(ones(sizes, x.options()), p, true, generator);
}

Tensor with_alpha(const char* name, const Tensor& x, const Dims& sizes, double p, bool training,
                  Generator& generator) {
  const OpRange op(name);
  require_float(x, name);
  if (!training || p == 0) return dropout(x, p, training, generator);
  if (p == 1) return x * 0.0;
  const Tensor keeps = dropout(ones(sizes, {.device = x.device()}), p, true, generator) != 0;
  constexpr double alpha = 1.7580993408473766;
  const double scale = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  const double shift = alpha * scale * p;
  return to(where(keeps, widened(x) * scale + shift, shift - alpha * scale), x.dtype());
}

}  // namespace

Tensor dropout1d(const Tensor& x, double p, bool training, Generator& generator) {
  const OpRange op("dropout1d");
  return channel_dropout("dropout1d", x, 2, p, training, generator);
}
Tensor dropout2d(const Tensor& x, double p, bool training, Generator& generator) {
  const OpRange op("dropout2d");
  return channel_dropout("dropout2d", x, 3, p, training, generator);
}
Tensor dropout3d(const Tensor& x, double p, bool training, Generator& generator) {
  const OpRange op("dropout3d");
  return channel_dropout("dropout3d", x, 4, p, training, generator);
}
Tensor alpha_dropout(const Tensor& x, double p, bool training, Generator& generator) {
  const OpRange op("alpha_dropout");
  return with_alpha("alpha_dropout", x, x.shape(), p, training, generator);
}
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Generator& generator) {
  const OpRange op("feature_alpha_dropout");
  require<ShapeError>(x.dim() >= 2, "feature_alpha_dropout: input ", x.shape(),
                      " is not (N, C, ...)");
  return with_alpha("feature_alpha_dropout", x, leading_sizes(x, 2), p, training, generator);
}

}  // namespace rondo
