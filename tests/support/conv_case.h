// A convolution by its sizes.
#pragma once

#include "tensor/backend.h"

namespace rondo::test {

/// x (n, c, h, w), filters (k, c, r, s)
struct ConvCase {
  std::int64_t n, c, h, w, k, r, s;
  Conv2dParams params = {};

  Dims y_shape() const {
    const Conv2dParams& o = params;
    return {n, k, (h + 2 * o.pad_h - o.dilation_h * (r - 1) - 1) / o.stride_h + 1,
            (w + 2 * o.pad_w - o.dilation_w * (s - 1) - 1) / o.stride_w + 1};
  }
};

}  // namespace rondo::test
