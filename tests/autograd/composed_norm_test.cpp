// The composed normalisations: running statistics, 16-bit floats
// (tests/golden/make_more_layers.py), and errors. tests/nn/layers_test.cpp compares the layers with
// PyTorch.

#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/norm.h"
#include "nn/instance_norm.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

TEST(ComposedNorm, InstanceNormByRunningStatistics) {
  const Golden golden("more_layers.txt");
  expect_case(
      golden, "instance_norm.eval",
      [](const Tensors& x) {
        return instance_norm(x[0], x[1], x[2], fill({2}, 1).to(x[0].dtype()),
                             (fill({2}, 2) + 1.5).to(x[0].dtype()),
                             {.use_input_stats = false, .eps = 1e-3});
      },
      18, 4);
}

TEST(ComposedNorm, RmsNormOf16Bits) {
  const Golden golden("more_layers.txt");
  for (const DType dtype : {f32, f16, bf16}) {
    const Tensor x = fill({2, 3}, 0);
    const auto same = [&](const std::string& name, double scale) {
      const Tensor y = rms_norm((x * scale).to(dtype), {3});
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_TRUE(all_close(y, golden[concat("rms_norm.", name, '.', dtype)], tolerance(dtype)));
    };
    same("big", 3e4);
    same("small", 1e-3);
  }
}

TEST(ComposedNorm, StateOfInstanceNorm) {
  nn::InstanceNorm2d norm(3, {.affine = true, .track_running_stats = true});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : norm.state_dict()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias", "running_mean", "running_var",
                                             "num_batches_tracked"}));
  EXPECT_TRUE(nn::InstanceNorm1d(3).state_dict().empty());
}

TEST(ComposedNorm, Errors) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_ERROR(rms_norm(x, {3}), ShapeError,
               "rms_norm: input [2, 3, 4] does not end with the normalized shape [3]");
  EXPECT_ERROR(rms_norm(x, {4}, ones({3})), ShapeError, "rms_norm: weight [3]");
  EXPECT_ERROR(rms_norm(zeros({2}, {.dtype = i64}), {2}), DTypeError, "rms_norm");
  EXPECT_ERROR(instance_norm(zeros({2, 3, 1}), {}, {}, {}, {}), ShapeError,
               "instance_norm: one value per channel of input [2, 3, 1] has no variance");
  EXPECT_ERROR(instance_norm(x, {}, {}, {}, {}, {.use_input_stats = false}), Error,
               "it needs running_mean and running_var");
  EXPECT_ERROR(instance_norm(zeros({2, 3}), {}, {}, {}, {}), ShapeError, "is not (N, C, L, ...)");
  EXPECT_ERROR(nn::InstanceNorm2d(3)(zeros({2, 4, 2, 2})), ShapeError,
               "InstanceNorm2d: input [2, 4, 2, 2] is not (N, C, ...) with 4 dimensions");
  EXPECT_ERROR(local_response_norm(zeros({2, 3}), 2), ShapeError, "local_response_norm: input");
  EXPECT_ERROR(local_response_norm(x, 0), ShapeError, "size 0");
}

}  // namespace
}  // namespace rondo::test
