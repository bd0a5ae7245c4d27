// Ops whose elements come from tables of indices or weights make these tables on the GPU, so that
// a captured graph may contain them.

#include <gtest/gtest.h>

#include <optional>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/fold.h"
#include "autograd/ops/interpolate.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/cuda_graph.h"

namespace rondo::test {
namespace {

Tensors results_of(const Tensor& x) {
  Tensors ys;
  for (const char* mode : {"reflect", "replicate", "circular"})
    ys.push_back(pad(x, {2, 1, 1, 3}, mode));
  ys.push_back(unfold(x, 3, {.padding = 1}));
  ys.push_back(fold(unfold(x, 2), {5, 4}, 2));
  ys.push_back(adaptive_max_pool2d(x, {3, 3}));
  ys.push_back(max_pool2d(x, 2, {.stride = 1, .padding = 1, .dilation = 2}));
  for (const char* mode : {"nearest", "bilinear", "bicubic"})
    ys.push_back(interpolate(x, {.size = {7, 3}, .mode = mode}));
  ys.push_back(x.unfold(2, 3, 1));
  ys.push_back(tril(x));
  ys.push_back(floor_divide(to(x, i64), 3) + to(x, i64) % 3);
  return ys;
}

TEST(IndexTables, AreMadeOnTheGpu) {
  std::optional<SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace(SimulatedGpus::Memory::caching);
  const Device gpu = Device::cuda(0);
  const Tensor x = arange(40, {.dtype = f32}).reshape({1, 2, 5, 4}) * 0.25, there = x.to(gpu);
  results_of(there);
  cuda::Graph graph(gpu);
  Tensors captured;
  graph.capture([&] { captured = results_of(there); });
  there.copy_(x + 1);
  graph.replay();
  const Tensors wanted = results_of(x + 1);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(all_close(captured[i].cpu(), wanted[i], 1e-5)) << i;
}

TEST(IndexTables, ARangeIsThatOfTheCpu) {
  std::optional<SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace();
  for (const DType dtype : {i64, i32, f32, f64}) {
    const TensorOptions here{.dtype = dtype}, there{.dtype = dtype, .device = Device::cuda(0)};
    EXPECT_TRUE(identical(arange(-7, 30, 4, there).cpu(), arange(-7, 30, 4, here)));
    EXPECT_TRUE(identical(arange(5, -4, -3, there).cpu(), arange(5, -4, -3, here)));
    EXPECT_EQ(arange(0, there).numel(), 0);
  }
  const TensorOptions there{.dtype = f32, .device = Device::cuda(0)};
  EXPECT_TRUE(identical(arange(0.1, 5.0, 0.3, there).cpu(), arange(0.1, 5.0, 0.3)));
}

}  // namespace
}  // namespace rondo::test
