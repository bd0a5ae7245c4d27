// Training steps of several ranks, and out-of-memory errors, on GPUs that are always simulated.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "dist/launch/device.h"
#include "dist/transports/nccl/nccl_api.h"
#include "nn/activation.h"
#include "nn/containers.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "support/gpu_training.h"
#include "support/host_cudart.h"
#include "support/host_nccl.h"
#include "support/ranks.h"
#include "support/simulated_gpu.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/cuda/allocator.h"
#include "train/trace.h"
#include "train/trainer.h"

namespace rondo::train {
namespace {

using test::expect_same;
using test::trained;
using test::Trained;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GpuRanks : public ::testing::TestWithParam<int> {
 protected:
  GpuRanks() { dist::set_nccl(&test::host_nccl()); }
  ~GpuRanks() override {
    dist::set_nccl(nullptr);
    EXPECT_THAT(test::nccl_violations(), IsEmpty());
  }

 private:
  test::SimulatedGpus gpus_{test::SimulatedGpus::Memory::caching};
};

TEST_P(GpuRanks, CapturedWithItsAllReducesIsTheSame) {
  for (dist::AllReduce algorithm : {dist::AllReduce::nccl, dist::AllReduce::ring}) {
    std::array<Trained, 2> eager, graph;
    for (auto* result : {&eager, &graph}) {
      test::on_ranks(2,
                     [&](std::shared_ptr<dist::Communicator> comm) {
                       const Device device = dist::use_device(*comm, "cuda");
                       std::uint64_t waits = 99;
                       comm->barrier();
                       auto mine = trained(device, GetParam(), result == &graph, 0, comm, &waits);
                       comm->barrier();
                       (*result)[static_cast<std::size_t>(comm->rank())] = mine;
                       comm->barrier();
                     },
                     {.all_reduce = algorithm, .timeout = std::chrono::seconds(60)});
    }
    for (std::size_t r : {0u, 1u}) expect_same(eager[r], graph[r], 0);
  }
}

using GpuFit = GpuRanks;
/// The parameters of each rank after `fit` with these options.
std::array<std::vector<float>, 2> fitted(const FitOptions& options) {
  std::array<std::vector<float>, 2> all;
  test::on_ranks(2, [&](std::shared_ptr<dist::Communicator> comm) {
    nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
    test::set_weights(net, 5);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    Generator generator(7);
    const Tensor x = randn({96, 4}, {}, generator), y = (x.select(1, 0) > 0).to(i64);
    Trainer trainer(net, sgd,
                    {.epochs = 2,
                     .batch_size = 8,
                     .device = "cuda",
                     .comm = comm,
                     .threads = 1,
                     .out = nullptr,
                     .fit = options});
    trainer.fit(std::make_shared<data::TensorDataset>(x, y));
    auto& mine = all[static_cast<std::size_t>(comm->rank())];
    for (const Tensor& p : net.parameters())
      for (const float v : p.detach().to(Device::cpu()).to_vector()) mine.push_back(v);
  });
  return all;
}

/// An average that is due in some steps only is not captured.
TEST_P(GpuFit, AveragesWithAndWithoutAGraph) {
  const FitOptions eager{.sync = Sync::average, .averaging = {.every = 5}};
  FitOptions captured = eager;
  captured.graph = true;
  const auto plain = fitted(eager), graph = fitted(captured);
  EXPECT_EQ(plain[0], plain[1]);
  EXPECT_EQ(graph[0], graph[1]);
  EXPECT_EQ(graph[0], plain[0]);
}

TEST_P(GpuFit, ZeroClipsTheGradients) {
  const auto clipped = fitted({.zero = true, .max_grad_norm = 0.1});
  EXPECT_EQ(clipped[0], clipped[1]);
  EXPECT_NE(clipped[0], fitted({.zero = true})[0]);
}

using GpuTraces = GpuRanks;
TEST_P(GpuTraces, ATraceDrawsNcclsCollectives) {
  const std::filesystem::path path =
      ::testing::TempDir() + "rondo_trace_of_gpus_" + std::to_string(getpid()) + ".json";
  test::on_ranks(2, [&](std::shared_ptr<dist::Communicator> comm) {
    const Device device = dist::use_device(*comm, "cuda");
    TimelineTrace trace(*comm, path);
    const dist::Communicator::Label label(*comm, "bucket 1 of 1");
    comm->all_reduce(ones({4}, {.device = device}));
    cuda::synchronize(device.index);
    trace.write(path);
  });
  std::ifstream in(path);
  const nlohmann::json all = nlohmann::json::parse(in);
  std::vector<int> ranks;
  for (const nlohmann::json& event : all.at("traceEvents")) {
    if (event.at("name") == "all_reduce of bucket 1 of 1") ranks.push_back(event.at("pid"));
  }
  EXPECT_THAT(ranks, ::testing::ElementsAre(0, 1));
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(SgdAndAdam, GpuRanks, ::testing::Values(0, 1));
INSTANTIATE_TEST_SUITE_P(TimelineTrace, GpuTraces, ::testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Fit, GpuFit, ::testing::Values(0));

// The program's own stream copies x, which is freed meanwhile. The memory must not be reused before
// the copy.
TEST(GpuMemory, IsHeldForTheStreamsThatUseIt) {
  const test::SimulatedGpus gpus(test::SimulatedGpus::Memory::caching);
  const Device gpu = Device::cuda(2);
  Tensor x = full({1000}, 3.0, {.device = gpu});
  const Tensor y = zeros({1000}, {.device = gpu});
  const cuda::Stream other = cuda::Stream::create(2);
  const cuda::Event ready(2), done(2);
  ready.record(cuda::current_stream(2));
  ready.block(other);
  {
    const cuda::StreamGuard guard(other);
    backend(gpu).copy(x, y);  // as late as possible
  }
  cuda::record_stream(x, other);
  x = {};
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(zeros({1000}, {.device = gpu}));
  done.record(other);
  done.block(cuda::current_stream(2));
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 3000);
}

TEST(GpuMemory, WhoHoldsItIsToldWhenThereIsNone) {
  const test::SimulatedGpus gpus(test::SimulatedGpus::Memory::caching);
  const Device gpu = Device::cuda(3);
  cuda::empty_cache(3);
  test::set_memory_of_gpus(std::size_t{256} << 20);
  nn::Linear layer(1000, 4000);  // 16 MB
  layer.to(gpu);
  optim::SGD sgd(layer.parameters(), {.lr = 0.1, .momentum = 0.9});
  layer(zeros({10, 1000}, {.device = gpu})).sum().backward();
  sgd.step();
  const Tensor kept = zeros({20, 1000, 1000}, {.device = gpu});  // 80 MB
  std::string said;
  try {
    zeros({50, 1000, 1000}, {.device = gpu});
  } catch (const CudaError& error) {
    said = error.what();
  }
  EXPECT_THAT(said, HasSubstr("cuda:3 is out of memory: cannot allocate 200000000 bytes"));
  EXPECT_THAT(said, HasSubstr(", parameters 1"));
  // 15.3 MiB, or a whole segment of 16.
  EXPECT_THAT(said,
              AnyOf(HasSubstr(", optimizer states 15.3"), HasSubstr(", optimizer states 16.0")));
  EXPECT_THAT(said, HasSubstr("activations and other tensors "));
  EXPECT_NO_THROW(zeros({1000}, {.device = gpu}));
  test::set_memory_of_gpus(std::size_t{1} << 40);
}

}  // namespace
}  // namespace rondo::train
