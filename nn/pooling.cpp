// Upsample (see pooling.h).

#include "nn/pooling.h"

#include <utility>

namespace rondo::nn {

Upsample::Upsample(UpsampleOptions options) : options(std::move(options)) {
  require(this->options.size.empty() != this->options.scale_factor.empty(),
          "Upsample: expected either size or scale_factor");
}

Tensor Upsample::forward(const Tensor& x) {
  const auto& [size, scale_factor, mode, align_corners] = options;
  // As in PyTorch, one size is for all dimensions of an image.
  return interpolate(x, {.size = size.size() == 1 ? Dims::filled(x.dim() - 2, size[0]) : size,
                         .scale_factor = scale_factor,
                         .mode = mode,
                         .align_corners = align_corners});
}

}  // namespace rondo::nn
