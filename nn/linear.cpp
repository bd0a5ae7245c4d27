// Linear (see linear.h). kaiming_uniform_ with slope sqrt 5 is how PyTorch writes a bound of 1 /
// sqrt(fan_in): gain = sqrt(2 / 6), times sqrt(3 / fan_in).

#include "nn/linear.h"

#include <cmath>
#include <typeinfo>

#include "autograd/ops/activation.h"
#include "autograd/ops/matmul.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options)
    : in_features(in_features), out_features(out_features) {
  require<ShapeError>(in_features >= 0 && out_features >= 0, "Linear: ", in_features, " to ",
                      out_features, " features, but neither may be negative");
  weight = empty({out_features, in_features});
  init::kaiming_uniform_(weight, {.slope = std::sqrt(5.0)});
  weight.requires_grad_();
  if (options.bias) {
    bias = empty({out_features});
    double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
    init::uniform_(bias, -bound, bound);
    bias.requires_grad_();
  }
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

Tensor Linear::operator()(const Tensor& x, Activation activation) {
  if (substitute() != nullptr) {
    if (auto* fused = dynamic_cast<FusesActivation*>(&self())) return (*fused)(x, activation);
  }
  // A substitute or a derived class computes with its own forward.
  if (substitute() != nullptr || typeid(*this) != typeid(Linear)) {
    return rondo::detail::activated(Module::operator()(x), activation);
  }
  return call([&](const Tensor& in) { return linear(in, weight, bias, activation); }, x);
}

}  // namespace rondo::nn
