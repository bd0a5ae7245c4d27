// Pad (see padding.h).

#include "nn/padding.h"

namespace rondo::nn {

Pad::Pad(std::int64_t padded_dims, const Dims& padding, PadMode mode, double value)
    : padding(padding.size() == 1 ? Dims::filled(2 * padded_dims, padding[0]) : padding),
      mode(mode),
      value(value) {
  require<ShapeError>(this->padding.size() == 2 * padded_dims, "padding ", padding,
                      " is neither one number nor ", 2 * padded_dims, " for ", padded_dims,
                      " dimensions");
}

}  // namespace rondo::nn
