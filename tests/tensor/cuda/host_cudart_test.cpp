// The double of CUDA's runtime keeps the rules that CUDA's documentation states.

#include "support/host_cudart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "autograd/ops/arithmetic.h"
#include "support/errors.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/cuda/launch.cuh"
#include "tensor/cuda/runtime.h"

namespace rondo::test {
namespace {

using cuda::Cudart;
using cuda::Event;
using cuda::HostOrder;
using cuda::Stream;

class HostCudart : public ::testing::Test {
 protected:
  void SetUp() override { cuda::synchronize(0); }
  /// Work of a stream that notes that it ran.
  static void note(cudaStream_t stream, bool& ran) {
    submit(stream, [&ran] { return ran = true; });
  }
  const SimulatedGpus gpus;
  const Cudart& cudart = host_cudart();
  const Stream side = Stream::create(0);
};

TEST_F(HostCudart, EveryStreamIsLazy) {
  for (const cudaStream_t stream : {cudaStream_t{}, side.get()}) {
    bool ran = false;
    note(stream, ran);
    EXPECT_FALSE(ran);
    EXPECT_EQ(cudart.stream_query(stream), cudaErrorNotReady);
    EXPECT_EQ(cudart.get_last_error(), cudaErrorNotReady) << "it stays pending";
    EXPECT_EQ(cudart.get_last_error(), cudaSuccess);
    EXPECT_EQ(cudart.stream_synchronize(stream), cudaSuccess);
    EXPECT_TRUE(ran);
    EXPECT_EQ(cudart.stream_query(stream), cudaSuccess);
  }
}

TEST_F(HostCudart, AnEventBringsOnlyTheWorkBeforeIt) {
  bool before = false, after = false, there = false;
  const Event event(0);
  note(nullptr, before);
  event.record(Stream(0));
  note(nullptr, after);
  event.block(side);
  note(side.get(), there);
  side.synchronize();
  EXPECT_TRUE(before && there);
  EXPECT_FALSE(after);
  cuda::synchronize(0);
}

TEST_F(HostCudart, CopiesReadPageableMemoryAtOnceAndPinnedMemoryLater) {
  const Tensor there = zeros({2}, {.dtype = f64, .device = Device::cuda(0)});
  void* pinned = nullptr;
  ASSERT_EQ(cudart.host_alloc(&pinned, 16, 0), cudaSuccess);
  double pageable[2];
  for (double* from : {pageable, static_cast<double*>(pinned)}) {
    from[0] = from[1] = 1;
    cudart.memcpy_async(there.data_ptr(), from, 16, cudaMemcpyHostToDevice, nullptr);
    from[0] = from[1] = 2;
    double back[2] = {};
    cudart.memcpy_async(back, there.data_ptr(), 16, cudaMemcpyDeviceToHost, nullptr);
    EXPECT_EQ(back[1], from == pageable ? 1 : 2) << "the host waited for a copy to pageable memory";
  }
  auto* back = static_cast<double*>(pinned);
  back[0] = 0;
  cudart.memcpy_async(back, there.data_ptr(), 16, cudaMemcpyDeviceToHost, nullptr);
  EXPECT_EQ(back[0], 0) << "a copy to pinned memory is asynchronous";
  cuda::synchronize(0);
  EXPECT_EQ(back[0], 2);
  cudart.free_host(pinned);
}

TEST_F(HostCudart, OnlyTimedEventsThatWereReachedHaveATime) {
  const Event begin(0, true), end(0, true), untimed(0);
  EXPECT_THROW((void)end.ms_since(begin), CudaError) << "not recorded";
  begin.record(side);
  bool ran = false;
  note(side.get(), ran);
  end.record(side);
  untimed.record(side);
  float ms = -1;
  EXPECT_EQ(cudart.event_elapsed_time(&ms, begin.get(), end.get()), cudaErrorNotReady);
  cudart.get_last_error();
  end.synchronize();
  EXPECT_GE(end.ms_since(begin), 0);
  EXPECT_ERROR((void)untimed.ms_since(begin), CudaError, "invalid resource handle");
}

// Each of them also makes the capture invalid.
TEST_F(HostCudart, CapturesForbidWhatWaits) {
  const Event event(0), timed(0, true);
  const Stream other = Stream::create(0);
  double pageable = 1;
  const Tensor x = zeros({1}, {.dtype = f64, .device = Device::cuda(0)});
  cuda::synchronize(0);
  const cudaStream_t stream = side.get();
  auto in_capture = [&](const std::function<cudaError_t()>& call) {
    EXPECT_EQ(cudart.stream_begin_capture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    event.record(side);
    timed.record(side);
    const cudaError_t status = call();
    cudaGraph_t graph = nullptr;
    const cudaError_t end = cudart.stream_end_capture(stream, &graph);
    if (graph != nullptr) cudart.graph_destroy(graph);
    cudart.get_last_error();
    return std::pair(status, end);
  };
  const auto invalid = cudaErrorStreamCaptureInvalidated;
  const std::pair unsupported(cudaErrorStreamCaptureUnsupported, invalid),
      captured(cudaErrorCapturedEvent, invalid);
  EXPECT_EQ(in_capture([&] { return cudart.stream_synchronize(stream); }), unsupported);
  EXPECT_EQ(in_capture([&] { return cudart.stream_query(stream); }), unsupported);
  EXPECT_EQ(in_capture([&] { return cudart.device_synchronize(); }), unsupported);
  EXPECT_EQ(in_capture([&] {
              return cudart.memcpy_async(x.data_ptr(), &pageable, 8, cudaMemcpyDefault, stream);
            }),
            unsupported);
  EXPECT_EQ(in_capture([&] { return cudart.event_query(event.get()); }), captured);
  EXPECT_EQ(in_capture([&] { return cudart.event_synchronize(event.get()); }), captured);
  EXPECT_EQ(in_capture([&] {
              float ms = 0;
              return cudart.event_elapsed_time(&ms, timed.get(), timed.get());
            }),
            captured);
  EXPECT_EQ(in_capture([&] { return cudart.stream_begin_capture(stream, {}); }).first,
            cudaErrorStreamCaptureUnsupported)
      << "captures of a stream are not nested";
  const Event outside(0);
  outside.record(other);
  EXPECT_EQ(in_capture([&] { return cudart.stream_wait_event(stream, outside.get(), 0); }).first,
            cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(in_capture([&] {
              event.block(other);
              bool unused = false;
              note(other.get(), unused);
              return cudaSuccess;
            }),
            std::pair(cudaSuccess, cudaErrorStreamCaptureUnjoined));
  EXPECT_EQ(cudart.stream_begin_capture(nullptr, {}), cudaErrorStreamCaptureUnsupported);
  cudart.get_last_error();
}

TEST_F(HostCudart, AStickyErrorStaysAndOtherErrorsDoNot) {
  EXPECT_EQ(cudart.set_device(99), cudaErrorInvalidDevice);
  EXPECT_ERROR(zeros({1}, {.device = Device::cuda(0)}), CudaError, "invalid device ordinal");
  EXPECT_NO_THROW(zeros({1}, {.device = Device::cuda(0)}));
  set_sticky_error(cudaErrorIllegalAddress);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cudart.stream_synchronize(nullptr), cudaErrorIllegalAddress);
    EXPECT_EQ(cudart.get_last_error(), cudaErrorIllegalAddress);
    EXPECT_ERROR(cuda::synchronize(0), CudaError, "an illegal memory access");
  }
  set_sticky_error(cudaSuccess);
  cudart.get_last_error();
  EXPECT_EQ(cudart.stream_synchronize(nullptr), cudaSuccess);
}

TEST_F(HostCudart, KernelsRunInTheOrderThatATestWants) {
  for (const std::int64_t n : {1, 2, 3, 4, 6, 10, 100, 1001}) {
    std::vector<std::int64_t> forwards(static_cast<std::size_t>(n));
    std::iota(forwards.begin(), forwards.end(), 0);
    const auto order = [&](HostOrder wanted) {
      std::vector<std::int64_t> seen;
      cuda::set_host_order(wanted);
      cuda::for_each(0, n, [&seen](std::int64_t i) { seen.push_back(i); });
      cuda::synchronize(0);
      cuda::set_host_order(HostOrder::forwards);
      return seen;
    };
    EXPECT_EQ(order(HostOrder::forwards), forwards);
    std::vector<std::int64_t> shuffled = order(HostOrder::shuffled);
    if (n > 4) {
      EXPECT_NE(shuffled, forwards);
    }
    std::ranges::sort(shuffled);
    EXPECT_EQ(shuffled, forwards) << "each call once";
    std::ranges::reverse(forwards);
    EXPECT_EQ(order(HostOrder::backwards), forwards);
  }
}

}  // namespace
}  // namespace rondo::test
