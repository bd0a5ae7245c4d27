#pragma once
// Fold and Unfold as modules. Formulas and errors are in autograd/ops/fold.h.

#include "autograd/ops/fold.h"
#include "nn/module.h"

namespace rondo::nn {

/// nn::Unfold unfold(3, {.padding = 1});
struct Unfold : Module {
  FoldOptions::Pair kernel_size;
  FoldOptions options;
  explicit Unfold(FoldOptions::Pair kernel_size, FoldOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return unfold(x, kernel_size, options); }
  std::string extra_repr() const override;
};

struct Fold : Module {
  FoldOptions::Pair output_size, kernel_size;
  FoldOptions options;
  Fold(FoldOptions::Pair output_size, FoldOptions::Pair kernel_size, FoldOptions options = {})
      : output_size(output_size), kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return fold(x, output_size, kernel_size, options); }
  std::string extra_repr() const override;
};

}  // namespace rondo::nn
