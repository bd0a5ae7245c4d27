// Training steps on a GPU, or, where there is none (and for two ranks), on GPUs that are simulated:
// no step makes the host wait, a captured step is the same as one that is not, and fit on a GPU is
// fit on the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "dist/device.h"
#include "dist/init.h"
#include "dist/nccl/nccl_api.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/lr_schedule.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "support/errors.h"
#include "support/host_cudart.h"
#include "support/host_nccl.h"
#include "support/ranks.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/cuda.h"
#include "tensor/cuda/stream.h"
#include "train/fit.h"
#include "train/step.h"

namespace rondo::train {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

nn::Sequential network(double dropout) {
  return nn::Sequential(nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(8),
                        nn::ReLU(), nn::Conv2d(8, 6, 3, {.stride = 2}), nn::ReLU(), nn::Flatten(),
                        nn::Dropout(dropout), nn::Linear(6 * 2 * 2, 4));
}

data::Batch batch_of(int k, std::int64_t n = 8) {
  Generator generator(100 + static_cast<std::uint64_t>(k));
  return {randn({n, 3, 6, 6}, {}, generator), randint(0, 4, {n}, {.dtype = i64}, generator)};
}

std::unique_ptr<optim::Optimizer> optimizer_of(int kind, nn::Module& model) {
  if (kind == 0)
    return std::make_unique<optim::SGD>(
        model.parameters(),
        optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  return std::make_unique<optim::AdamW>(model.parameters(), optim::AdamWOptions{.lr = 0.01});
}

struct Trained {
  std::vector<double> losses;
  nn::StateDict state;
};

void expect_same(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::abs(a.losses[i])) << "step " << i;
  for (std::size_t i = 0; i < a.state.size(); ++i) {
    const Tensor x = a.state[i].tensor.to(Device::cpu()).to(f64),
                 y = b.state[i].tensor.to(Device::cpu()).to(f64);
    EXPECT_LE((x - y).abs().max().item<double>(), tolerance * (1 + x.abs().max().item<double>()))
        << a.state[i].name;
  }
}

/// 12 steps, the seventh with a smaller batch, under a schedule.
Trained trained(Device device, int kind, bool graph, double dropout = 0.3,
                std::shared_ptr<dist::Communicator> comm = nullptr,
                std::uint64_t* waits = nullptr) {
  manual_seed(3);
  nn::Sequential model = network(dropout);
  test::set_weights(model, 3);  // from a generator of its own: ranks that are threads share ours
  model.to(device);
  manual_seed(4);
  auto optimizer = optimizer_of(kind, model);
  optim::CosineAnnealingLR schedule(*optimizer, {.t_max = 12});
  std::optional<dist::DistributedDataParallel> ddp;
  if (comm != nullptr) ddp.emplace(model, comm);
  TrainStep step(
      {.model = model, .optimizer = *optimizer, .ddp = ddp ? &*ddp : nullptr, .graph = graph});
  Trained result;
  const auto before = cuda::synchronizations();
  for (int k = 0; k < 12; ++k) {
    data::Batch batch = batch_of(k, k == 6 ? 5 : 8);
    step({batch.input.to(device), batch.target.to(device)}, {});
    schedule.step();
    for (double loss : step.take_losses()) result.losses.push_back(loss);
  }
  if (waits != nullptr) *waits = cuda::synchronizations() - before;
  for (double loss : step.take_losses(true)) result.losses.push_back(loss);
  result.state = model.state_dict();
  return result;
}

class GpuStep : public ::testing::TestWithParam<int> {
 protected:
  GpuStep() {
    if (cuda::device_count() == 0) simulated_.emplace(test::SimulatedGpus::Memory::caching);
    cuda::set_deterministic(true);
  }
  ~GpuStep() override { cuda::set_deterministic(false); }
  const Device gpu = Device::cuda(0);

 private:
  std::optional<test::SimulatedGpus> simulated_;
};

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

TEST_P(GpuStep, IsThatOfTheCpu) {
  const Trained here = trained(Device::cpu(), GetParam(), false);
  const Trained there = trained(gpu, GetParam(), false);
  EXPECT_EQ(here.losses.size(), 12u);
  expect_same(here, there, 2e-4);  // 12 steps of f32 apart
}

TEST_P(GpuStep, NeverWaits) {
  std::uint64_t waits = 99;
  trained(gpu, GetParam(), false, 0.3, nullptr, &waits);
  EXPECT_EQ(waits, 0u);
  trained(gpu, GetParam(), true, 0.3, nullptr, &waits);
  EXPECT_EQ(waits, 0u);
}

// Dropout draws new numbers in each replay, the schedule's rates are obeyed, the small batch runs
// as it is: the same bits.
TEST_P(GpuStep, CapturedIsTheSame) {
  const Trained eager = trained(gpu, GetParam(), false), graph = trained(gpu, GetParam(), true);
  expect_same(eager, graph, 0);
}

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

INSTANTIATE_TEST_SUITE_P(SgdAndAdam, GpuStep, ::testing::Values(0, 1));
INSTANTIATE_TEST_SUITE_P(SgdAndAdam, GpuRanks, ::testing::Values(0, 1));

using Graphs = GpuStep;

TEST_F(Graphs, ReplayWhatWasCaptured) {
  Tensor x = full({4}, 1.0, {.device = gpu}), y = zeros({4}, {.device = gpu});
  cuda::Graph graph(gpu);
  EXPECT_ERROR(graph.replay(), CudaError, "cuda::Graph: there is nothing to replay yet");
  graph.capture([&] { y.add_(x * 2); });
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 0);  // captured, not done
  for (int i = 0; i < 3; ++i) graph.replay();
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 4 * 6);
  x.fill_(10);
  graph.replay();
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 4 * 26);
  EXPECT_ERROR(graph.capture([] {}), CudaError, "cuda::Graph: it has been captured already");
}

TEST_F(Graphs, DrawNewNumbersAsTheStepWould) {
  Tensor eager = zeros({3, 5}, {.device = gpu}), replayed = zeros({3, 5}, {.device = gpu});
  manual_seed(9);
  for (int i = 0; i < 3; ++i) {
    NoGradGuard no_grad;
    eager[i].copy_(rand({5}, {.device = gpu}) + randn({5}, {.device = gpu}));
  }
  manual_seed(9);
  Tensor drawn = zeros({5}, {.device = gpu});
  cuda::Graph graph(gpu);
  graph.capture([&] { drawn.copy_(rand({5}, {.device = gpu}) + randn({5}, {.device = gpu})); });
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    replayed[i].copy_(drawn);
  }
  EXPECT_TRUE(test::all_close(eager.to(Device::cpu()), replayed.to(Device::cpu()), 0));
  manual_seed(10);
  EXPECT_ERROR(graph.replay(), CudaError,
               "cuda::Graph: it was captured with the seed 9, the generator's is 10 now");
}

// Memory of a captured step is written by every replay: nobody else may get it.
TEST_F(Graphs, KeepTheirMemory) {
  Tensor x = full({1000}, 1.0, {.device = gpu}), y;
  cuda::Graph graph(gpu);
  graph.capture([&] { y = (x + 1) * (x + 2); });
  std::vector<Tensor> others;
  for (int i = 0; i < 50; ++i) others.push_back(zeros({1000}, {.device = gpu}));
  graph.replay();
  for (const Tensor& other : others) EXPECT_EQ(other.to(Device::cpu()).sum().item(), 0);
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 6000);
}

TEST_F(Graphs, AStepThatLooksAtAValueIsRefused) {
  Tensor x = full({4}, 1.0, {.device = gpu});
  cuda::Graph graph(gpu);
  EXPECT_ERROR(graph.capture([&] { x.sum().item(); }), CudaError,
               "cuda::Graph: a captured step cannot wait for the GPU: it looked at a value on the "
               "host, or copied one there");
  EXPECT_FALSE(graph.is_captured());
  graph.capture([&] { x.add_(full({4}, 1.0, {.device = gpu})); });  // nothing is left of the first
  graph.replay();
  EXPECT_EQ(x.to(Device::cpu()).sum().item(), 8);
  EXPECT_ERROR(cuda::Graph(Device::cuda(63)), DeviceError, "device cuda:63 does not exist");
}

/// Two epochs of fit, then, from its checkpoint, a third.
FitResult fitted(Device device, bool graph, const std::filesystem::path& folder,
                 std::int64_t epochs, bool resume) {
  manual_seed(1);
  nn::Sequential model = network(0);
  model.to(device);
  auto optimizer = optimizer_of(0, model);
  optim::CosineAnnealingLR schedule(*optimizer, {.t_max = 30});
  data::Batch all = batch_of(1, 68);  // 8 batches of 8, and one of 4
  auto dataset = std::make_shared<data::TensorDataset>(all.input, all.target);
  data::DataLoader loader(dataset, std::make_shared<data::RandomSampler>(68, 3), {.batch_size = 8});
  return fit(
      model, *optimizer, schedule,
      {.train = loader, .train_images = 68, .batch_size = 8, .test = dataset, .test_transform = {}},
      dist::init(), {.epochs = epochs, .graph = graph, .checkpoint_dir = folder, .resume = resume});
}

TEST_F(Graphs, FitOnAGpuIsFitOnTheCpu) {
  const auto folder = std::filesystem::temp_directory_path() / concat("rondo_gpu_fit_", getpid());
  std::vector<FitResult> results;
  for (int kind = 0; kind < 3; ++kind) {
    const Device device = kind == 0 ? Device::cpu() : gpu;
    std::filesystem::remove_all(folder);
    fitted(device, kind == 2, folder, 2, false);
    results.push_back(fitted(device, kind == 2, folder, 3, true));
    EXPECT_EQ(results.back().epochs, 3);
  }
  std::filesystem::remove_all(folder);
  EXPECT_NEAR(results[0].final_loss, results[1].final_loss, 1e-4);
  EXPECT_EQ(results[1].final_loss, results[2].final_loss);
  EXPECT_EQ(results[1].test.correct, results[2].test.correct);
  EXPECT_NEAR(results[0].test.loss, results[1].test.loss, 1e-4);
  EXPECT_ERROR(fitted(Device::cpu(), true, {}, 1, false), DeviceError,
               "fit: a graph is captured on a GPU, but the model is on the CPU");
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
  EXPECT_THAT(said, HasSubstr("cuda:3 is out of memory: 200000000 bytes asked for"));
  EXPECT_THAT(said, HasSubstr(", parameters 1"));
  EXPECT_THAT(said, HasSubstr(", optimizer states 15."));
  EXPECT_THAT(said, HasSubstr("activations and other tensors "));
  EXPECT_NO_THROW(zeros({1000}, {.device = gpu}));
  test::set_memory_of_gpus(std::size_t{1} << 40);
}

TEST_F(Graphs, ALossThatIsNotFiniteIsTold) {
  for (bool graph : {false, true}) {
    manual_seed(3);
    nn::Sequential model = network(0);
    model.to(gpu);
    auto optimizer = optimizer_of(0, model);
    TrainStep step({.model = model, .optimizer = *optimizer, .graph = graph});
    std::string said;
    for (int k = 0; k < 10 && said.empty(); ++k) {
      data::Batch batch = batch_of(k);
      if (k == 6) batch.input.fill_(std::nan(""));
      try {
        step({batch.input.to(gpu), batch.target.to(gpu)}, [&] { return concat(" in step ", k); });
      } catch (const Error& error) {
        said = error.what();
      }
    }
    EXPECT_THAT(said, AnyOf(HasSubstr("the loss is nan on rank 0 in step "),
                            HasSubstr("the loss is -nan on rank 0 in step ")));
  }
}

}  // namespace
}  // namespace rondo::train
