// pixel_shuffle, pixel_unshuffle and channel_shuffle (see composed.h).

#include "autograd/ops/composed.h"
#include "autograd/ops/shape.h"
#include "tensor/error.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// The dimensions of x before its last three.
Dims before_image(const char* op, const Tensor& x, std::int64_t factor) {
  require<ShapeError>(x.dim() >= 3 && factor > 0, op, ": input ", x.shape(), " and factor ", factor,
                      " are not (..., C, H, W) and a positive number");
  return {x.shape().begin(), x.shape().end() - 3};
}

Dims joined_dims(Dims a, const Dims& b) {
  for (const std::int64_t size : b) a.push_back(size);
  return a;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t r) {
  const OpRange op("pixel_shuffle");
  const Dims batch = before_image("pixel_shuffle", x, r);
  const std::int64_t square = (CheckedSize(r, "pixel_shuffle") * r).value();
  const std::int64_t c = x.size(-3) / square, h = x.size(-2), w = x.size(-1);
  require<ShapeError>(x.size(-3) % square == 0, "pixel_shuffle: the ", x.size(-3),
                      " channels of input ", x.shape(), " cannot be divided by ", square);
  // One dimension of the batch, because a tensor has at most 8 dimensions.
  const Tensor squares = reshape(x, {numel_of(batch), c, r, r, h, w});
  const Tensor image = permute(squares, {0, 1, 4, 2, 5, 3});
  return detail::as_result(reshape(image, joined_dims(batch, {c, h * r, w * r})), x);
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t r) {
  const OpRange op("pixel_unshuffle");
  const Dims batch = before_image("pixel_unshuffle", x, r);
  const std::int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  require<ShapeError>(x.size(-2) % r == 0 && x.size(-1) % r == 0,
                      "pixel_unshuffle: height and width of input ", x.shape(),
                      " cannot be divided by ", r);
  const Tensor squares = reshape(x, {numel_of(batch), c, h, r, w, r});
  const std::int64_t channels = (CheckedSize(c, "pixel_unshuffle") * r * r).value();
  const Tensor parts = permute(squares, {0, 1, 3, 5, 2, 4});
  return detail::as_result(reshape(parts, joined_dims(batch, {channels, h, w})), x);
}

Tensor channel_shuffle(const Tensor& x, std::int64_t groups) {
  const OpRange op("channel_shuffle");
  require<ShapeError>(x.dim() >= 3 && groups > 0 && x.size(1) % groups == 0,
                      "channel_shuffle: the channels of input ", x.shape(),
                      " cannot be divided into ", groups, " groups");
  const Tensor split = reshape(x, {x.size(0), groups, x.size(1) / groups, -1});
  return detail::as_result(reshape(transpose(split, 1, 2), x.shape()), x);
}

}  // namespace rondo
