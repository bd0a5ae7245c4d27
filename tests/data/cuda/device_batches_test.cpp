// Batches that are copied to a GPU, and batches that are made there. Without a GPU one is
// simulated, whose side streams run as late as possible.

#include <gtest/gtest.h>

#include "data/loader.h"
#include "data/prefetch.h"
#include "data/resident.h"
#include "data/transforms.h"
#include "support/errors.h"
#include "support/host_cudart.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/cuda/cudart.h"
#include "tensor/cuda/simulation.h"
#include "tensor/cuda/stream.h"

namespace rondo::data {
namespace {

class GpuBatches : public ::testing::Test {
 protected:
  GpuBatches() {
    if (cuda::device_count() == 0) simulated_.emplace();
  }
  const Device gpu = Device::cuda(0);

 private:
  std::optional<test::SimulatedGpus> simulated_;
};

std::shared_ptr<ImageDataset> images(std::int64_t n) {
  Tensor pixels = Tensor::empty({n, 3, 9, 8}, {.dtype = u8});
  for (std::int64_t i = 0; i < pixels.numel(); ++i)
    pixels.data_ptr<std::uint8_t>()[i] =
        static_cast<std::uint8_t>(Philox{1, 2}.word(static_cast<std::uint64_t>(i)));
  Tensor labels = Tensor::empty({n}, {.dtype = i64});
  for (std::int64_t i = 0; i < n; ++i) labels.data_ptr<std::int64_t>()[i] = i % 4;
  return std::make_shared<ImageDataset>(pixels, labels,
                                        std::vector<std::string>{"a", "b", "c", "d"});
}

DataLoader loader_of(std::shared_ptr<const Dataset> dataset, int workers, Transform transform) {
  auto sampler = std::make_shared<RandomSampler>(dataset->size(), 5);
  return DataLoader(std::move(dataset), sampler, {.batch_size = 7, .workers = workers}, transform);
}

const std::vector<ImageStep> everything = {
    RandomCrop{.height = 8, .width = 7, .padding = 2, .fill = 9},
    RandomHorizontalFlip{},
    ToFloat{},
    Normalize{{0.4F, 0.5F, 0.6F}, {0.2F, 0.3F, 0.25F}},
    RandomErasing{.probability = 0.7},
    Cutout{.side = 3}};

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.strides(), b.strides());
  EXPECT_TRUE(test::all_close(a.to(f64), b.to(f64), 0));
}

TEST_F(GpuBatches, ArriveAsTheyLeft) {
  auto dataset = images(40);  // the last batch has 5
  for (int workers : {0, 2}) {
    DataLoader here = loader_of(dataset, workers, ImageTransform(everything, {.seed = 3}));
    DataLoader there = loader_of(dataset, workers, ImageTransform(everything, {.seed = 3}));
    const auto before = cuda::synchronizations();
    std::vector<Batch> arrived;
    for (auto& batch : DeviceBatches(there, gpu)) arrived.push_back(batch);
    EXPECT_EQ(cuda::synchronizations(), before);
    std::size_t k = 0;
    for (auto& batch : here) {
      ASSERT_LT(k, arrived.size());
      EXPECT_EQ(arrived[k].input.device(), gpu);
      EXPECT_EQ(arrived[k].target.device(), gpu);
      expect_equal(arrived[k].input.to(Device::cpu()), batch.input);
      expect_equal(arrived[k].target.to(Device::cpu()), batch.target);
      ++k;
    }
    EXPECT_EQ(k, arrived.size());
  }
}

TEST_F(GpuBatches, ADeviceThatDoesNotExistIsNamed) {
  DataLoader loader = loader_of(images(5), 0, {});
  EXPECT_ERROR(DeviceBatches(loader, Device::cuda(63)), DeviceError,
               "device cuda:63 does not exist");
}

TEST_F(GpuBatches, OnTheCpuPassThrough) {
  DataLoader loader = loader_of(images(16), 1, {});
  std::int64_t seen = 0;
  for (auto& [input, target] : DeviceBatches(loader, Device::cpu())) {
    EXPECT_EQ(input.device(), Device::cpu());
    seen += target.size(0);
  }
  EXPECT_EQ(seen, 16);
}

TEST_F(GpuBatches, ALoopThatEndsEarlyLeavesNothingBehind) {
  DataLoader loader = loader_of(images(40), 2, {});
  for (auto& batch : DeviceBatches(loader, gpu)) {
    EXPECT_EQ(batch.size(), 7);
    break;
  }
  DataLoader none(images(0), std::make_shared<SequentialSampler>(0), {.batch_size = 4});
  for (auto& batch : DeviceBatches(none, gpu)) ADD_FAILURE() << batch.size();
}

TEST_F(GpuBatches, MadeOnTheGpuAreThoseOfTheCpu) {
  auto dataset = images(23);
  auto resident = std::make_shared<ResidentDataset>(*dataset, gpu);
  EXPECT_EQ(resident->num_classes(), 4);
  std::vector<std::vector<ImageStep>> lists = {everything, {ToFloat{}}, {}};
  lists.push_back({RandomCrop{.height = 5, .width = 8}, RandomHorizontalFlip{.probability = 1}});
  for (const auto& steps : lists) {
    for (MemoryFormat format : {MemoryFormat::channels_last, MemoryFormat::contiguous}) {
      const ImageTransform transform(steps, {.seed = 4, .format = format});
      DataLoader here = loader_of(dataset, 0, transform), there = loader_of(resident, 0, transform);
      here.set_epoch(2);
      there.set_epoch(2);
      const auto before = cuda::synchronizations();
      std::vector<Batch> made;
      for (auto& batch : DeviceBatches(there, gpu)) made.push_back(batch);
      EXPECT_EQ(cuda::synchronizations(), before);
      std::size_t k = 0;
      for (auto& batch : here) {
        EXPECT_EQ(made[k].input.device(), gpu);
        expect_equal(made[k].input.to(Device::cpu()), batch.input);
        expect_equal(made[k].target.to(Device::cpu()), batch.target);
        ++k;
      }
    }
  }
}

// After some errors of a kernel every later call fails, also those of the iterator's end.
TEST_F(GpuBatches, TheEndOfAnIteratorDoesNotThrowWhenTheDeviceIsLost) {
  if (!cuda::is_simulated()) GTEST_SKIP() << "a real GPU would stay lost";
  DataLoader loader = loader_of(images(20), 0, ImageTransform(everything, {.seed = 3}));
  DeviceBatches batches(loader, gpu);
  cuda::Cudart lost = test::host_cudart();
  lost.stream_wait_event = [](cudaStream_t, cudaEvent_t, unsigned) {
    return cudaErrorLaunchFailure;
  };
  {
    const DeviceBatches::Iterator at = batches.begin();
    cuda::set_cudart(&lost);
  }
  cuda::set_cudart(&test::host_cudart());
}

TEST_F(GpuBatches, ASampleThatIsNotThereIsNamed) {
  const ResidentDataset resident(*images(5), gpu);
  const std::int64_t wrong[] = {0, 5};
  EXPECT_ERROR(resident.get_batch(wrong), ShapeError,
               "ResidentDataset: sample 5 does not exist; the number of samples is 5");
}

}  // namespace
}  // namespace rondo::data
