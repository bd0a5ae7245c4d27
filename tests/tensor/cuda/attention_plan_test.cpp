// Attention through cuDNN. The real cuDNN checks the graphs on a GPU that is only described; the
// test's own (support/host_cudnn_graph.h) checks that they compute what rondo's kernels do.

#include "tensor/cuda/attention_plan.h"

#include <gtest/gtest.h>

#include <utility>

#include "autograd/engine.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/shape.h"
#include "support/described_gpu.h"
#include "support/fill.h"
#include "support/host_cudnn.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"

namespace rondo::cuda {
namespace {

/// A call of 2 x 4 heads whose memory nobody reads: 64 queries, and values of `values` features.
AttentionCall described(DType dtype, std::int64_t keys, std::int64_t values, bool is_causal,
                        bool is_backward) {
  const auto heads_last = [dtype](std::int64_t length, std::int64_t features) {
    return transpose(Tensor::empty({2, length, 4, features}, {.dtype = dtype}), 1, 2);
  };
  AttentionCall call{heads_last(64, 64),
                     heads_last(keys, 64),
                     heads_last(keys, values),
                     heads_last(64, values),
                     Tensor::empty({2, 4, 64}),
                     0.125F,
                     is_causal};
  if (is_backward) {
    call.dy = heads_last(64, values);
    call.dq = heads_last(64, 64);
    call.dk = heads_last(keys, 64);
    call.dv = heads_last(keys, values);
  }
  return call;
}

// The graphs are valid. A machine without a driver cannot tell whether there is an engine: those of
// cuDNN 9.19 are compiled at run time and refuse there.
TEST(AttentionPlans, TheRealLibraryTakesTheGraphs) {
  std::string why;
  const auto h100 = test::described_h100(why);
  if (!h100) GTEST_SKIP() << why;
  std::size_t plans = 0;
  const auto take = [&](const AttentionCall& call) {
    EXPECT_TRUE(call.suits_cudnn());
    plans += attention_plans(call, {.properties = &*h100}, 1).size();
  };
  for (const bool is_backward : {false, true}) {
    take(described(bf16, 128, 64, false, is_backward));
    take(described(f16, 77, 64, true, is_backward));
    take(described(bf16, 128, 32, true, is_backward));
  }
  take(described(f16, 77, 64, false, false));
  RecordProperty("plans", static_cast<int>(plans));
}

TEST(AttentionPlans, AreOnlyForWhatEnginesCompute) {
  EXPECT_FALSE(described(f32, 128, 64, false, false).suits_cudnn());
  EXPECT_FALSE(described(bf16, 64, 64, false, true).suits_cudnn()) << "half a tile of keys";
  AttentionCall call = described(f16, 128, 64, false, true);
  EXPECT_TRUE(call.suits_cudnn());
  const Tensor dv = std::exchange(call.dv, transpose(call.dv, 2, 3).contiguous().transpose(2, 3));
  EXPECT_FALSE(call.suits_cudnn()) << "features are not next to each other";
  call.dv = dv;
  const auto with_q = [&](const Tensor& q) {
    AttentionCall other = call;
    other.q = q;
    return other.suits_cudnn();
  };
  const TensorOptions like = {.dtype = f16};
  EXPECT_FALSE(with_q(Tensor::empty({2, 4, 64, 68}, like).narrow(3, 0, 64))) << "rows of 136 bytes";
  EXPECT_FALSE(with_q(Tensor::empty({2, 4, 64, 72}, like).narrow(3, 1, 64))) << "begins at byte 2";
  EXPECT_FALSE(with_q(Tensor::empty({1, 1, 64, 64}, like).expand({2, 4, 64, 64})))
      << "heads share their memory";
  EXPECT_FALSE(with_q(Tensor::empty({2, 4, 64, 20}, like))) << "20 features";
  EXPECT_FALSE(with_q(Tensor::empty({2, 4, 64, 256}, like))) << "256 features";
  EXPECT_FALSE(with_q(Tensor::empty({2, 8, 64, 64}, like))) << "grouped queries";
  EXPECT_TRUE(with_q(Tensor::empty({2, 4, 1, 64}, like).as_view({2, 4, 1, 64}, {256, 64, 7, 1}, 0)))
      << "the stride of a single row does not count";
}

/// How often cuDNN ran a plan.
int executed = 0;
std::size_t version = 0;

class AttentionByCudnn : public ::testing::Test {
 protected:
  AttentionByCudnn() {
    version = 91900;
    static auto* library = new Cudnn(test::host_cudnn());  // plans are kept by its address
    library->version = [] { return version; };
    library->execute = [](cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack) {
      ++executed;
      return test::host_cudnn().execute(handle, plan, pack);
    };
    set_cudnn(library);
    executed = 0;
  }
  test::SimulatedGpus gpus_;
};

/// The output and the gradients, on the CPU in f32.
Tensors results(Device device, DType dtype, const AttentionOptions& options, std::int64_t heads,
                std::int64_t keys) {
  Tensors x;
  for (const Dims& shape :
       {Dims{2, 4, 24, 16}, Dims{2, heads, keys, 16}, Dims{2, heads, keys, 8}}) {
    x.push_back(test::fill32(shape, static_cast<std::uint32_t>(x.size())).to(dtype).to(device));
    x.back().requires_grad_();
  }
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
  const Tensor dy = test::fill32(y.shape(), 9).to(dtype).to(device);
  Tensors all = grad({y}, x, {.grad_outputs = {dy}});
  all.push_back(y.detach());
  for (Tensor& t : all) t = t.to(Device::cpu()).to(f32);
  return all;
}

/// Compares the GPU with the CPU, and how often cuDNN ran with `calls`.
void expect_as_on_the_cpu(DType dtype, const AttentionOptions& options, std::int64_t heads,
                          std::int64_t keys, int calls) {
  SCOPED_TRACE(
      concat(dtype, options.is_causal ? ", causal, " : ", ", keys, " keys of ", heads, " heads"));
  executed = 0;
  AttentionOptions on_gpu = options;
  if (on_gpu.attn_mask.defined()) on_gpu.attn_mask = on_gpu.attn_mask.to(Device::cuda(0));
  const Tensors found = results(Device::cuda(0), dtype, on_gpu, heads, keys),
                expected = results(Device::cpu(), dtype, options, heads, keys);
  EXPECT_EQ(executed, calls);
  // The weights and their gradients are rounded to 16 bits before they are multiplied.
  const double eps = dtype == bf16 ? 0x1p-8 : dtype == f16 ? 0x1p-11 : 0x1p-18;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(
        test::all_close(found[i], expected[i], 4 * eps * expected[i].abs().max().item<double>()))
        << "result " << i;
}

TEST_F(AttentionByCudnn, ComputesWhatTheCpuDoes) {
  for (const DType dtype : {bf16, f16}) {
    expect_as_on_the_cpu(dtype, {}, 4, 128, 2);
    expect_as_on_the_cpu(dtype, {.is_causal = true}, 4, 40, 2);
  }
}

TEST_F(AttentionByCudnn, LeavesTheRestToTheKernels) {
  const Tensor mask = zeros({24, 128}, {.dtype = bf16});
  expect_as_on_the_cpu(bf16, {.attn_mask = mask}, 4, 128, 0);
  expect_as_on_the_cpu(f32, {}, 4, 128, 0);
  expect_as_on_the_cpu(bf16, {.enable_gqa = true}, 2, 128, 0);
  expect_as_on_the_cpu(bf16, {}, 4, 40, 1);  // not its backward
  set_deterministic(true);
  expect_as_on_the_cpu(bf16, {}, 4, 128, 1);
  set_deterministic(false);
  results(Device::cuda(0), bf16, {.dropout_p = 0.5}, 4, 128);
  EXPECT_EQ(executed, 1);  // of the line before
}

TEST_F(AttentionByCudnn, NeedsAKnownVersion) {
  version = 91400;
  expect_as_on_the_cpu(bf16, {}, 4, 128, 0);
}

}  // namespace
}  // namespace rondo::cuda
