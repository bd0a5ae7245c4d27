#pragma once
// FitOptions::tensorboard: a run's curves in TensorBoard's files. Including this header registers
// them (train/curve_writer.h).

#include "train/curve_writer.h"

namespace rondo::train::detail {

bool register_tensorboard();
inline const bool tensorboard_is_registered = register_tensorboard();

}  // namespace rondo::train::detail
