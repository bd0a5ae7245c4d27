#include "train/curve_writer.h"

#include <optional>

#include "tensor/error.h"

namespace rondo::train {
namespace {

std::optional<CurveFormat>& registered() {
  static std::optional<CurveFormat> format;
  return format;
}

}  // namespace

bool register_curve_format(CurveFormat format) {
  registered() = format;
  return true;
}

const CurveFormat& curve_format() {
  require(registered().has_value(),
          "FitOptions::tensorboard: this program cannot write TensorBoard's files; include "
          "<rondo/rondo.h> and link rondo::rondo, or <rondo/extras/tensorboard/curves.h> and "
          "rondo::tensorboard");
  return *registered();
}

}  // namespace rondo::train
