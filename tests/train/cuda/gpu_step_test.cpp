// Training steps on a GPU, or on a simulated one: no step makes the host wait, a captured step
// equals one that is not captured, and fit on a GPU equals fit on the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "autograd/ops/loss.h"
#include "dist/launch/init.h"
#include "io/checkpoint.h"
#include "optim/one_cycle.h"
#include "support/errors.h"
#include "support/gpu_training.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/cuda.h"
#include "tensor/cuda/allocator.h"
#include "tensor/cuda_graph.h"
#include "train/fit.h"

namespace rondo::train {
namespace {

using test::expect_same;
using test::image_batch;
using test::network;
using test::optimizer_of;
using test::trained;
using test::Trained;
using ::testing::HasSubstr;

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

TEST_P(GpuStep, IsThatOfTheCpu) {
  const Trained here = trained(Device::cpu(), GetParam(), false);
  const Trained there = trained(gpu, GetParam(), false);
  EXPECT_EQ(here.losses.size(), 12u);
  expect_same(here, there, 2e-4);  // 12 steps in f32
}

// Momentum and moments have the layout that the parameters had when they were made, and convolution
// weights have another layout on a GPU.
TEST_P(GpuStep, AnOptimizersStateFollowsTheModel) {
  const auto train = [&](const std::vector<Device>& places) {
    manual_seed(3);
    nn::Sequential model = network(0);
    auto optimizer = optimizer_of(GetParam(), model);
    int k = 0;
    for (const Device place : places) {
      model.to(place);
      for (int i = 0; i < 2; ++i) {
        const data::Batch batch = image_batch(k++);
        optimizer->zero_grad();
        cross_entropy(model(batch.input.to(place)), batch.target.to(place)).backward();
        optimizer->step();
      }
    }
    return Trained{{}, model.state_dict()};
  };
  const Device cpu = Device::cpu();
  expect_same(train({cpu, cpu, cpu}), train({cpu, gpu, cpu}), 1e-4);  // 6 steps in f32
}

TEST_P(GpuStep, NeverWaits) {
  std::uint64_t waits = 99;
  trained(gpu, GetParam(), false, 0.3, nullptr, &waits);
  EXPECT_EQ(waits, 0u);
  trained(gpu, GetParam(), true, 0.3, nullptr, &waits);
  EXPECT_EQ(waits, 0u);
}

// Dropout draws new numbers in each replay, the schedule's rates are used, and the small batch runs
// without the graph: the results are bit-identical.
TEST_P(GpuStep, CapturedIsTheSame) {
  const Trained eager = trained(gpu, GetParam(), false), graph = trained(gpu, GetParam(), true);
  expect_same(eager, graph, 0);
}

TEST_P(GpuStep, InMixedPrecisionCapturedIsTheSameAndNeverWaits) {
  const Trained full = trained(gpu, GetParam(), false);
  for (const DType amp : {bf16, f16}) {
    SCOPED_TRACE(amp);
    std::uint64_t waits = 99;
    const Trained eager = trained(gpu, GetParam(), false, 0.3, nullptr, nullptr, amp),
                  graph = trained(gpu, GetParam(), true, 0.3, nullptr, &waits, amp);
    expect_same(eager, graph, 0);
    EXPECT_EQ(waits, 0u);
    EXPECT_NE(full.losses, eager.losses);
    expect_same(full, eager, amp == bf16 ? 12 * 0x1p-8 : 12 * 0x1p-11);  // one rounding per step
    for (const auto& [name, tensor] : eager.state)
      EXPECT_NE(tensor.dtype(), amp) << name << ": weights stay as they are";
  }
}

// The momentum of a schedule reaches a captured step, like its rate.
TEST_P(GpuStep, CapturedObeysASchedulesMomentum) {
  const auto weights = [&](bool graph) {
    manual_seed(3);
    nn::Sequential model = network(0);
    model.to(gpu);
    auto optimizer = optimizer_of(GetParam(), model);
    optim::OneCycleLR schedule(*optimizer, {.max_lr = 0.05, .total_steps = 12});
    TrainStep step({.model = model, .optimizer = *optimizer, .graph = graph});
    for (int k = 0; k < 12; ++k) {
      const data::Batch batch = image_batch(k);
      step({batch.input.to(gpu), batch.target.to(gpu)}, {});
      if (k < 11) schedule.step();
    }
    return model.named_parameters()[0].tensor.detach().to(Device::cpu());
  };
  EXPECT_TRUE(test::identical(weights(false), weights(true)));
}

// The scale is far too large: all steps before the capture, and some after it, are skipped.
TEST_P(GpuStep, StepsMayBeLeftOutFromTheStart) {
  for (const bool graph : {false, true}) {
    manual_seed(3);
    nn::Sequential model = network(0);
    model.to(gpu);
    const Tensor before = model.named_parameters()[0].tensor.detach().to(Device::cpu()).clone();
    auto optimizer = optimizer_of(GetParam(), model);
    optim::GradScaler scaler(gpu, {.init_scale = 0x1p120, .backoff_factor = 0x1p-15});
    TrainStep step(
        {.model = model, .optimizer = *optimizer, .amp = f16, .scaler = &scaler, .graph = graph});
    const auto run = [&](int k) {
      const data::Batch batch = image_batch(k);
      step({batch.input.to(gpu), batch.target.to(gpu)}, {});
    };
    for (int k = 0; k < 4; ++k) run(k);
    const auto weights = [&] {
      return model.named_parameters()[0].tensor.detach().to(Device::cpu());
    };
    EXPECT_TRUE(test::identical(weights(), before)) << "2^60 is too much for f16 all the same";
    for (int k = 4; k < 12; ++k) run(k);
    EXPECT_FALSE(test::identical(weights(), before));
    EXPECT_LT(scaler.get_scale(), 0x1p60);
    EXPECT_TRUE(std::isfinite(weights().abs().max().item<double>()));
  }
}

INSTANTIATE_TEST_SUITE_P(SgdAndAdam, GpuStep, ::testing::Values(0, 1));

using Graphs = GpuStep;

// On the GPU, weights and their gradients have the layout that its convolutions read. Files and the
// CPU do not see that layout.
TEST_F(Graphs, WeightsLieAsConvolutionsReadThem) {
  const cuda::Tf32 allowed = cuda::allowed_tf32();
  cuda::allow_tf32(cuda::Tf32::convolutions);  // without it f32 is contiguous
  nn::Sequential model = network(0);
  const auto before = model.named_parameters()[0].tensor.to_vector();
  model.to(gpu);
  const Tensor weight = model.named_parameters()[0].tensor;
  ASSERT_EQ(weight.shape(), (Dims{8, 3, 3, 3}));
  EXPECT_TRUE(weight.is_contiguous(MemoryFormat::channels_last));
  model(image_batch(0).input.to(gpu)).sum().backward();
  EXPECT_EQ(weight.grad().strides(), weight.strides());
  EXPECT_EQ(weight.to(Device::cpu()).contiguous().to_vector(), before);
  model.to(Device::cpu());
  EXPECT_TRUE(model.named_parameters()[0].tensor.is_contiguous());
  EXPECT_EQ(model.named_parameters()[0].tensor.to_vector(), before);
  cuda::allow_tf32(allowed);
}

TEST_F(Graphs, ReplayWhatWasCaptured) {
  Tensor x = full({4}, 1.0, {.device = gpu}), y = zeros({4}, {.device = gpu});
  cuda::Graph graph(gpu);
  EXPECT_ERROR(graph.replay(), CudaError, "cuda::Graph: nothing to replay; call capture first");
  graph.capture([&] { y.add_(x * 2); });
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 0);  // captured, not executed
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
               "cuda::Graph: it was captured with seed 9, but the generator has seed 10 now");
}

// Every replay writes the memory of a captured step, so no other tensor may get it.
TEST_F(Graphs, KeepTheirMemory) {
  Tensor x = full({1000}, 1.0, {.device = gpu}), y;
  const std::size_t before = cuda::memory_stats().graphs;
  cuda::Graph graph(gpu);
  graph.capture([&] { y = (x + 1) * (x + 2); });
  EXPECT_GE(cuda::memory_stats().graphs, before + 3 * 4000);
  std::vector<Tensor> others;
  for (int i = 0; i < 50; ++i) others.push_back(zeros({1000}, {.device = gpu}));
  graph.replay();
  for (const Tensor& other : others) EXPECT_EQ(other.to(Device::cpu()).sum().item(), 0);
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 6000);
}

// During a capture the allocator may not ask whether a stream has reached an event. It waits until
// the capture is over, and reuses the memory then.
TEST_F(Graphs, MemoryThatAnotherStreamUsedMayBeFreedInThem) {
  constexpr std::int64_t n = 8 << 20;
  const cuda::Stream side = cuda::Stream::create(0);
  Tensor y = zeros({4}, {.device = gpu}), used = ones({n}, {.device = gpu});
  cuda::Graph graph(gpu);
  graph.capture([&] {
    const cuda::Event begin(0), end(0);
    begin.record(cuda::current_stream(0));
    begin.block(side);
    {
      const cuda::StreamGuard guard(side);
      y.add_(used.narrow(0, 0, 4));
    }
    end.record(side);
    end.block(cuda::current_stream(0));
    Tensor mine = ones({4}, {.device = gpu});
    cuda::record_stream(mine, side);
    mine = Tensor();
    for (int i = 0; i < 3; ++i) y.add_(ones({4}, {.device = gpu}));
  });
  graph.replay();
  EXPECT_EQ(y.to(Device::cpu()).sum().item(), 16);

  cuda::Graph other(gpu);
  other.capture([&] {
    y.add_(ones({4}, {.device = gpu}));
    cuda::record_stream(used, side);
    used = Tensor();
  });
  other.replay();
  cuda::synchronize();
  const std::size_t before = cuda::memory_stats().reserved;
  // A first request notices that the capture has ended, a second one that the stream has finished.
  for (int i = 0; i < 3; ++i) (void)zeros({4}, {.device = gpu});
  const Tensor again = zeros({n}, {.device = gpu});
  EXPECT_EQ(cuda::memory_stats().reserved, before);
}

TEST_F(Graphs, AStepThatLooksAtAValueIsRefused) {
  Tensor x = full({4}, 1.0, {.device = gpu});
  cuda::Graph graph(gpu);
  EXPECT_ERROR(
      graph.capture([&] { x.sum().item(); }), CudaError,
      "cuda::Graph: a captured step must not use the host or wait for the GPU, but it read a "
      "value or copied to or from the CPU");
  EXPECT_FALSE(graph.is_captured());
  graph.capture([&] { x.add_(full({4}, 1.0, {.device = gpu})); });  // nothing is left of the first
  graph.replay();
  EXPECT_EQ(x.to(Device::cpu()).sum().item(), 8);
  EXPECT_ERROR(cuda::Graph(Device::cuda(63)), DeviceError, "device cuda:63 does not exist");
}

TEST_F(Graphs, WantTheModelOnAGpu) {
  nn::Sequential model = network(0);
  auto optimizer = optimizer_of(0, model);
  EXPECT_ERROR(TrainStep({.model = model, .optimizer = *optimizer, .graph = true}), DeviceError,
               "TrainStep: a graph is captured on a GPU, but 0.weight is on cpu");
}

/// Two epochs of fit, then a third from its checkpoint.
FitResult fitted(Device device, bool graph, const std::filesystem::path& folder,
                 std::int64_t epochs, bool resume, std::optional<DType> amp = {}) {
  manual_seed(1);
  nn::Sequential model = network(0);
  model.to(device);
  auto optimizer = optimizer_of(0, model);
  optim::CosineAnnealingLR schedule(*optimizer, {.t_max = 30});
  data::Batch all = image_batch(1, 68);  // 8 batches of 8, and one of 4
  auto dataset = std::make_shared<data::TensorDataset>(all.input, all.target);
  data::DataLoader loader(dataset, std::make_shared<data::RandomSampler>(68, 3), {.batch_size = 8});
  return fit(
      model, *optimizer, schedule,
      {.train = loader, .train_images = 68, .batch_size = 8, .test = dataset, .test_transform = {}},
      dist::init(),
      {.epochs = epochs, .amp = amp, .graph = graph, .checkpoint_dir = folder, .resume = resume});
}

TEST_F(Graphs, FitInF16GoesOnWithItsScale) {
  const auto folder = std::filesystem::temp_directory_path() / concat("rondo_gpu_amp_", getpid());
  std::filesystem::remove_all(folder);
  const FitResult straight = fitted(gpu, true, folder, 3, false, f16);
  fitted(gpu, true, folder, 2, false, f16);
  const io::Checkpoint saved =
      io::load_checkpoint((folder / "checkpoint.safetensors").string(), "model");
  EXPECT_EQ(std::get<double>(saved.metadata.at("scaler.scale")), 65536);
  EXPECT_EQ(std::get<double>(saved.metadata.at("scaler.growth_tracker")), 18);
  const FitResult resumed = fitted(gpu, true, folder, 3, true, f16);
  EXPECT_EQ(resumed.final_loss, straight.final_loss);
  EXPECT_EQ(resumed.test.loss, straight.test.loss);
  std::filesystem::remove_all(folder);
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

TEST_F(Graphs, ALossThatIsNotFiniteIsTold) {
  for (bool graph : {false, true}) {
    manual_seed(3);
    nn::Sequential model = network(0);
    model.to(gpu);
    auto optimizer = optimizer_of(0, model);
    TrainStep step({.model = model, .optimizer = *optimizer, .graph = graph});
    std::string said;
    for (int k = 0; k < 10 && said.empty(); ++k) {
      data::Batch batch = image_batch(k);
      if (k == 6) batch.input.fill_(std::nan(""));
      try {
        step({batch.input.to(gpu), batch.target.to(gpu)}, [&] { return concat(" in step ", k); });
        cuda::synchronize(gpu.index);  // so that the losses have arrived by the next
      } catch (const Error& error) {
        said = error.what();
      }
    }
    EXPECT_THAT(said, HasSubstr("the loss is nan on rank 0 in step "));
  }
}

}  // namespace
}  // namespace rondo::train
