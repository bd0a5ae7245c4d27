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

/// A call of 2 x `heads` heads whose memory nobody reads.
AttentionCall described(DType dtype, std::int64_t key_heads, bool is_causal, bool is_backward) {
  const TensorOptions like = {.dtype = dtype};
  const auto heads_last = [&](std::int64_t heads, std::int64_t length) {
    return transpose(Tensor::empty({2, length, heads, 64}, like), 1, 2);
  };
  AttentionCall call{heads_last(4, 64), heads_last(key_heads, 128), heads_last(key_heads, 128),
                     heads_last(4, 64), Tensor::empty({2, 4, 64}),  0.125F,
                     is_causal};
  if (is_backward) {
    for (Tensor* t : {&call.dy, &call.dq}) *t = heads_last(4, 64);
    for (Tensor* t : {&call.dk, &call.dv}) *t = heads_last(key_heads, 128);
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
  for (const bool is_backward : {false, true})
    for (const bool is_causal : {false, true}) {
      const AttentionCall call = described(bf16, is_causal ? 2 : 4, is_causal, is_backward);
      EXPECT_TRUE(call.suits_cudnn());
      plans += attention_plans(call, {.properties = &*h100}, 1).size();
    }
  RecordProperty("plans", static_cast<int>(plans));
}

TEST(AttentionPlans, AreOnlyForTensorsThatEnginesCanRead) {
  EXPECT_FALSE(described(f32, 4, false, false).suits_cudnn());
  AttentionCall call = described(f16, 4, false, true);
  EXPECT_TRUE(call.suits_cudnn());
  const Tensor dv = std::exchange(call.dv, transpose(call.dv, 2, 3).contiguous().transpose(2, 3));
  EXPECT_FALSE(call.suits_cudnn()) << "features are not next to each other";
  call.dv = dv;
  call.q = Tensor::empty({2, 4, 64, 68}, {.dtype = f16}).narrow(3, 0, 64);
  EXPECT_FALSE(call.suits_cudnn()) << "rows do not start at 16 bytes";
  call.q = Tensor::empty({2, 4, 64, 72}, {.dtype = f16}).narrow(3, 1, 64);
  EXPECT_FALSE(call.suits_cudnn()) << "the first row does not";
  call.q = Tensor::empty({1, 1, 64, 64}, {.dtype = f16}).expand({2, 4, 64, 64});
  EXPECT_FALSE(call.suits_cudnn()) << "heads share their memory";
  call.q = Tensor::empty({2, 4, 64, 20}, {.dtype = f16});
  EXPECT_FALSE(call.suits_cudnn()) << "20 features";
  call.q = Tensor::empty({2, 4, 64, 256}, {.dtype = f16});
  EXPECT_FALSE(call.suits_cudnn()) << "256 features";
}

/// How often cuDNN ran a plan.
int executed = 0;

class AttentionByCudnn : public ::testing::Test {
 protected:
  AttentionByCudnn() {
    static auto* library = new Cudnn(test::host_cudnn());  // plans are kept by its address
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
Tensors results(Device device, DType dtype, const AttentionOptions& options, std::int64_t heads) {
  Tensors x;
  for (const Dims& shape : {Dims{2, 4, 24, 16}, Dims{2, heads, 40, 16}, Dims{2, heads, 40, 8}}) {
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

TEST_F(AttentionByCudnn, ComputesWhatTheCpuDoes) {
  for (const DType dtype : {bf16, f16})
    for (const bool is_causal : {false, true})
      for (const std::int64_t heads : {4, 2}) {
        SCOPED_TRACE(concat(dtype, is_causal ? ", causal, " : ", ", heads, " heads of keys"));
        const AttentionOptions options = {.is_causal = is_causal, .enable_gqa = heads == 2};
        const int before = executed;
        const Tensors found = results(Device::cuda(0), dtype, options, heads),
                      expected = results(Device::cpu(), dtype, options, heads);
        EXPECT_EQ(executed - before, 2);
        // The weights and their gradients are rounded to 16 bits before they are multiplied.
        const double eps = dtype == bf16 ? 0x1p-8 : 0x1p-11;
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(test::all_close(found[i], expected[i],
                                      4 * eps * expected[i].abs().max().item<double>()))
              << "result " << i;
      }
}

TEST_F(AttentionByCudnn, LeavesDeterministicBackwardsToTheKernels) {
  set_deterministic(true);
  const Tensors found = results(Device::cuda(0), bf16, {}, 4);
  set_deterministic(false);
  EXPECT_EQ(executed, 1);
  const Tensors expected = results(Device::cpu(), bf16, {}, 4);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(test::all_close(found[i], expected[i],
                                4 * 0x1p-8 * expected[i].abs().max().item<double>()));
}

TEST_F(AttentionByCudnn, LeavesMasksAndDropoutToTheKernels) {
  const Tensor mask = zeros({24, 40}, {.dtype = bf16, .device = Device::cuda(0)});
  results(Device::cuda(0), bf16, {.attn_mask = mask}, 4);
  results(Device::cuda(0), bf16, {.dropout_p = 0.5}, 4);
  results(Device::cuda(0), f32, {}, 4);
  EXPECT_EQ(executed, 0);
}

}  // namespace
}  // namespace rondo::cuda
