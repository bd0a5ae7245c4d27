#pragma once
// Padding: fills and copies, or for other modes than constant selections by index, so that all
// dtypes, devices and orders of gradients follow from those. Under TraceMode constant padding is
// composed of ops that exporters know (narrow, full, cat).

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace rondo {

enum class PadMode : std::uint8_t {
  constant,   // a value
  reflect,    // c b | a b c | b a: mirrored, without the edge itself
  replicate,  // a a | a b c | c c: the edge
  circular,   // b c | a b c | a b: the other end
};

/// x with elements added around it. `padding` is {left, right, top, bottom, …}: the elements before
/// and after the last dimension, then those of the dimension before it, for up to four dimensions.
/// A negative number removes elements. All modes but constant pad the last one, two or three
/// dimensions of an x that has one or two dimensions more. Throws ShapeError if nothing is left of
/// a dimension, if reflect reaches the other edge, or if circular wraps around more than once;
/// Error for a value other than 0 with these modes. Agrees with torch.nn.functional.pad.
Tensor pad(const Tensor& x, const Dims& padding, PadMode mode = PadMode::constant,
           Scalar value = 0);
/// The same with a mode by its name. Throws Error for another name.
Tensor pad(const Tensor& x, const Dims& padding, std::string_view mode, Scalar value = 0);

}  // namespace rondo
