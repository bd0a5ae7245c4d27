// Bilinear (see bilinear.h).

#include "nn/bilinear.h"

#include <cmath>

#include "autograd/ops/composed.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   BilinearOptions options)
    : in1_features(in1_features), in2_features(in2_features), out_features(out_features) {
  require<ShapeError>(in1_features > 0 && in2_features > 0 && out_features > 0,
                      "Bilinear: ", in1_features, " and ", in2_features, " to ", out_features,
                      " features, but there must be at least 1 of each");
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  weight = empty({out_features, in1_features, in2_features});
  init::uniform_(weight, -bound, bound);
  weight.requires_grad_();
  if (options.bias) {
    bias = empty({out_features});
    init::uniform_(bias, -bound, bound);
    bias.requires_grad_();
  }
}

Tensor Bilinear::forward(const Tensor& x) { return bilinear(x, x, weight, bias); }

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2) {
  return call([&](const Tensor& a, const Tensor& b) { return bilinear(a, b, weight, bias); }, x1,
              x2);
}

}  // namespace rondo::nn
