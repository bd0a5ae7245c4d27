#pragma once
// Padding that a convolution layer adds with `pad` before its convolution. Private to the layers.

#include <cstdint>
#include <initializer_list>

#include "autograd/ops/pad.h"

namespace rondo::nn::detail {

struct PaddedDim {
  std::int64_t kernel, stride, dilation;
  std::int64_t& padding;  // of both sides
};

/// The padding around x, the last dimension first; empty if the convolution can pad by itself. It
/// cannot if the mode is not constant, or if `same` needs one element more on the right. Sets the
/// padding that is left for the convolution.
Dims outer_padding(const char* layer, bool same, PadMode mode,
                   std::initializer_list<PaddedDim> last_first);

}  // namespace rondo::nn::detail
