#include "nn/conv_padding.h"

namespace rondo::nn::detail {

Dims outer_padding(const char* layer, bool same, PadMode mode,
                   std::initializer_list<PaddedDim> last_first) {
  Dims sides;
  bool needs_pad = mode != PadMode::constant;
  for (const PaddedDim& dim : last_first) {
    if (same) {
      require<ShapeError>(dim.stride == 1 && dim.padding == 0, layer,
                          ": same_padding needs stride 1 and no other padding, but stride is ",
                          dim.stride, " and padding ", dim.padding);
      const std::int64_t total = dim.dilation * (dim.kernel - 1);
      dim.padding = total / 2;
      sides.push_back(total / 2);
      sides.push_back(total - total / 2);
      needs_pad = needs_pad || total % 2 != 0;
    } else {
      sides.push_back(dim.padding);
      sides.push_back(dim.padding);
    }
  }
  if (!needs_pad) return {};
  for (const PaddedDim& dim : last_first) dim.padding = 0;
  return sides;
}

}  // namespace rondo::nn::detail
