#pragma once
// unfold and fold: the windows of an image as columns, as in im2col, and their sums.

#include "autograd/ops/conv.h"
#include "tensor/tensor.h"

namespace rondo {

struct FoldOptions {
  using Pair = Conv2dOptions::Pair;
  Pair dilation = 1, padding = 0, stride = 1;
};

/// x (N, C, H, W) or (C, H, W) to (N, C kernel.h kernel.w, L): column l holds the l-th of the L
/// windows of the padded image, in row-major order. Throws ShapeError if no window fits. Agrees
/// with torch.nn.functional.unfold.
Tensor unfold(const Tensor& x, Conv2dOptions::Pair kernel, FoldOptions options = {});
/// The transpose of unfold: columns (N, C kernel.h kernel.w, L), or without N, to images
/// (N, C, output_size), in which each pixel is the sum over all windows that contain it. Throws
/// ShapeError if the number of columns does not fit. Agrees with torch.nn.functional.fold.
Tensor fold(const Tensor& x, Conv2dOptions::Pair output_size, Conv2dOptions::Pair kernel,
            FoldOptions options = {});

}  // namespace rondo
