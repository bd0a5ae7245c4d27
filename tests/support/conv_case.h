// A convolution, given by its sizes.
#pragma once

#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/onednn.h"

namespace rondo::test {

/// x (n, c, h, w), weights (k, c, r, s)
struct ConvCase {
  std::int64_t n, c, h, w, k, r, s;
  Conv2dParams params = {};

  Dims y_shape() const {
    const Conv2dParams& o = params;
    return {n, k, (h + 2 * o.pad_h - o.dilation_h * (r - 1) - 1) / o.stride_h + 1,
            (w + 2 * o.pad_w - o.dilation_w * (s - 1) - 1) / o.stride_w + 1};
  }
  /// The problem that the kernels' rules get: in f32, without a bias.
  cpu::Conv2dProblem problem(cpu::Conv2dProblem::Pass pass) const {
    const Dims y = y_shape();
    return {.pass = pass,
            .dtype = f32,
            .n = n,
            .c = c,
            .h = h,
            .w = w,
            .k = k,
            .r = r,
            .s = s,
            .p = y[2],
            .q = y[3],
            .params = params,
            .bias = false};
  }
};

/// Allows only these algorithms, and oneDNN, until the end of the scope.
struct OnlyConv {
  explicit OnlyConv(const char* names) { cpu::set_conv_algorithms(names); }
  ~OnlyConv() { cpu::set_conv_algorithms(""); }
  OnlyConv(const OnlyConv&) = delete;
  OnlyConv& operator=(const OnlyConv&) = delete;
};

}  // namespace rondo::test
