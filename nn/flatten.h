#pragma once
// Modules without arithmetic: Flatten, Unflatten, Identity, and those that exchange channels and
// pixels. Shapes and errors are in autograd/ops/composed.h.

#include "autograd/ops/composed.h"
#include "autograd/ops/shape.h"
#include "nn/module.h"

namespace rondo::nn {

/// By default, (N, C, H, W) to (N, C H W).
struct Flatten : Module {
  std::int64_t start_dim, end_dim;
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1)
      : start_dim(start_dim), end_dim(end_dim) {}
  Tensor forward(const Tensor& x) override { return flatten(x, start_dim, end_dim); }
  std::string extra_repr() const override;
};

/// Splits dimension dim into `unflattened_size`, of which one may be -1.
struct Unflatten : Module {
  std::int64_t dim;
  Dims unflattened_size;
  Unflatten(std::int64_t dim, const Dims& unflattened_size)
      : dim(dim), unflattened_size(unflattened_size) {}
  Tensor forward(const Tensor& x) override { return unflatten(x, dim, unflattened_size); }
  std::string extra_repr() const override;
};

struct PixelShuffle : Module {
  std::int64_t upscale_factor;
  explicit PixelShuffle(std::int64_t upscale_factor) : upscale_factor(upscale_factor) {}
  Tensor forward(const Tensor& x) override { return pixel_shuffle(x, upscale_factor); }
  std::string extra_repr() const override;
};

struct PixelUnshuffle : Module {
  std::int64_t downscale_factor;
  explicit PixelUnshuffle(std::int64_t downscale_factor) : downscale_factor(downscale_factor) {}
  Tensor forward(const Tensor& x) override { return pixel_unshuffle(x, downscale_factor); }
  std::string extra_repr() const override;
};

struct ChannelShuffle : Module {
  std::int64_t groups;
  explicit ChannelShuffle(std::int64_t groups) : groups(groups) {}
  Tensor forward(const Tensor& x) override { return channel_shuffle(x, groups); }
  std::string extra_repr() const override;
};

/// y = x. Use it to replace a layer that you want to remove.
struct Identity : Module {
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace rondo::nn
