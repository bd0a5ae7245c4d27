#include "nn/models/mlp.h"

#include "nn/activation.h"
#include "nn/linear.h"

namespace rondo::nn {

Mlp::Mlp(MlpOptions options)
    : linear_relu_stack(Linear(options.in_features, options.hidden), ReLU(),
                        Linear(options.hidden, options.hidden), ReLU(),
                        Linear(options.hidden, options.num_classes)) {}

Tensor Mlp::forward(const Tensor& x) { return linear_relu_stack(flatten(x)); }

void Mlp::visit(Visitor& v) {
  v.child("flatten", flatten);
  v.child("linear_relu_stack", linear_relu_stack);
}

}  // namespace rondo::nn
