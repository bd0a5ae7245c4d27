// NVIDIA's CUB sorts short lines, through the launches of sort.cu. Longer lines are sorted with
// --slow: a pass of CUB over a line has hundreds of barriers and shuffles.

#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "support/simulated_gpu.h"
#include "support/support.h"

namespace rondo::test {
namespace {

TEST(PtxSort, SortsShortLinesAsTheCpuDoes) {
  const SimulatedGpus gpus;
  manual_seed(1);
  for (DType dtype : {f32, f64, f16, u8}) {
    for (std::int64_t n : {1, 10, 33, 300}) {
      const Tensor x = (rand({2, n}) * 100).to(dtype);
      const auto want = sort(x, 1), got = sort(x.to(Device::cuda()), 1);
      EXPECT_TRUE(all_close(got.values.to(Device::cpu()).to(f64), want.values.to(f64), 0)) << n;
      EXPECT_EQ(got.indices.to(Device::cpu()).to_vector<std::int64_t>(),
                want.indices.to_vector<std::int64_t>())
          << n;
    }
  }
}

}  // namespace
}  // namespace rondo::test
