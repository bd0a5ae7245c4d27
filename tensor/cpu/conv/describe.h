#pragma once
// A convolution as a Conv2dProblem.

#include "tensor/cpu/onednn.h"

namespace rondo::cpu {

inline Conv2dProblem describe(Conv2dProblem::Pass pass, const Tensor& x, const Tensor& w,
                              const Tensor& y, const Conv2dParams& params, bool bias) {
  return {.pass = pass,
          .dtype = x.dtype(),
          .n = x.size(0),
          .c = x.size(1),
          .h = x.size(2),
          .w = x.size(3),
          .k = w.size(0),
          .r = w.size(2),
          .s = w.size(3),
          .p = y.size(2),
          .q = y.size(3),
          .params = params,
          .bias = bias};
}

}  // namespace rondo::cpu
