#pragma once
// gradcheck: compares an op's backward with central differences.

#include <functional>
#include <string>

#include "tensor/tensor.h"

namespace rondo {

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5, rtol = 1e-3;
};

struct GradcheckResult {
  bool ok = true;
  std::string message;  // the first disagreement: input, output, element, both numbers
  explicit operator bool() const { return ok; }
};

/// Compares, for every element of every f64 input that requires a gradient and every element of
/// every output, the tape's derivative with (f(x + eps) - f(x - eps)) / 2 eps. f must be
/// deterministic.
GradcheckResult gradcheck(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs,
                          GradcheckOptions options = {});
/// The same for the second derivative: gradcheck of grad(f) with create_graph.
GradcheckResult gradgradcheck(const std::function<Tensors(const Tensors&)>& f,
                              const Tensors& inputs, GradcheckOptions options = {});

}  // namespace rondo
