#pragma once
// Padding as modules. Formulas and errors are in autograd/ops/pad.h.

#include "autograd/ops/pad.h"
#include "nn/module.h"

namespace rondo::nn {

/// Pads the last `padded_dims` dimensions. `padding` is one number for all sides, or {left, right,
/// top, bottom, front, back} as far as there are dimensions; ShapeError for another count.
struct Pad : Module {
  Dims padding;
  PadMode mode;
  double value;
  Tensor forward(const Tensor& x) override { return pad(x, padding, mode, value); }
  std::string extra_repr() const override;

 protected:
  Pad(std::int64_t padded_dims, const Dims& padding, PadMode mode, double value = 0);
  std::string text_with_value() const;
};

/// Such as nn::ReflectionPad2d({1, 2, 0, 1}).
template <PadMode pad_mode, std::int64_t padded_dims>
struct PadOf : Pad {
  explicit PadOf(const Dims& padding) : Pad(padded_dims, padding, pad_mode) {}
};
template <std::int64_t padded_dims>
struct PadWithValue : Pad {
  PadWithValue(const Dims& padding, double value)
      : Pad(padded_dims, padding, PadMode::constant, value) {}
  std::string extra_repr() const override { return text_with_value(); }
};

struct ZeroPad1d : PadOf<PadMode::constant, 1> {
  using PadOf::PadOf;
};
struct ZeroPad2d : PadOf<PadMode::constant, 2> {
  using PadOf::PadOf;
};
struct ZeroPad3d : PadOf<PadMode::constant, 3> {
  using PadOf::PadOf;
};
struct ConstantPad1d : PadWithValue<1> {
  using PadWithValue::PadWithValue;
};
struct ConstantPad2d : PadWithValue<2> {
  using PadWithValue::PadWithValue;
};
struct ConstantPad3d : PadWithValue<3> {
  using PadWithValue::PadWithValue;
};
struct ReflectionPad1d : PadOf<PadMode::reflect, 1> {
  using PadOf::PadOf;
};
struct ReflectionPad2d : PadOf<PadMode::reflect, 2> {
  using PadOf::PadOf;
};
struct ReflectionPad3d : PadOf<PadMode::reflect, 3> {
  using PadOf::PadOf;
};
struct ReplicationPad1d : PadOf<PadMode::replicate, 1> {
  using PadOf::PadOf;
};
struct ReplicationPad2d : PadOf<PadMode::replicate, 2> {
  using PadOf::PadOf;
};
struct ReplicationPad3d : PadOf<PadMode::replicate, 3> {
  using PadOf::PadOf;
};
struct CircularPad1d : PadOf<PadMode::circular, 1> {
  using PadOf::PadOf;
};
struct CircularPad2d : PadOf<PadMode::circular, 2> {
  using PadOf::PadOf;
};
struct CircularPad3d : PadOf<PadMode::circular, 3> {
  using PadOf::PadOf;
};

}  // namespace rondo::nn
