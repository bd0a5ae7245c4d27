#pragma once
// Sizes of windows and images, as the layers' constructors take them.

#include "autograd/ops/conv.h"
#include "autograd/ops/image_dims.h"

namespace rondo::nn {

/// A number, or {height, width}.
using Pair = rondo::Conv2dOptions::Pair;
/// A number, or {depth, height, width}.
using Triple = rondo::Conv3dOptions::Triple;

namespace detail {
using rondo::detail::dims_of;
using rondo::detail::size_of;
}  // namespace detail

}  // namespace rondo::nn
