// Identical batches for any number of workers; exceptions and early exits. TSan would detect a race
// in the loader here.

#include "data/loader.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "data/transforms.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::message_of;
using ::testing::HasSubstr;

std::shared_ptr<const ImageDataset> make_images(std::int64_t n) {
  Tensor images = Tensor::empty({n, 3, 8, 8}, {.dtype = u8});
  auto* bytes = images.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < images.numel(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 192);
  Tensor labels = Tensor::empty({n}, {.dtype = i64});
  for (std::int64_t i = 0; i < n; ++i) labels.data_ptr<std::int64_t>()[i] = i % 10;
  return std::make_shared<ImageDataset>(images, labels, std::vector<std::string>(10, "name"));
}

/// Sample i is the number i.
std::shared_ptr<const TensorDataset> make_numbers(std::int64_t n) {
  return std::make_shared<TensorDataset>(arange(n), arange(n));
}

Transform numbers_augmentation() {
  return ImageTransform({RandomCrop{8, 8, 2}, RandomHorizontalFlip{}, ToFloat{}, Cutout{2}},
                        {.seed = 3});
}

/// The concatenated inputs of a loop over the loader.
std::vector<float> run(DataLoader& loader) {
  std::vector<float> all;
  for (auto& [input, target] : loader) {
    for (const Tensor* tensor : {&input, &target}) {
      const auto values = tensor->to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

TEST(DataLoader, TheNumberOfWorkersDoesNotMatter) {
  const auto set = make_images(53);
  std::vector<float> wanted;
  for (int repetition = 0; repetition < 50; ++repetition) {
    for (int workers = 0; workers <= 4; ++workers) {
      DataLoader loader(set, std::make_shared<RandomSampler>(53, 9),
                        {.batch_size = 4, .workers = workers, .prefetch = 1 + repetition % 3},
                        numbers_augmentation());
      loader.set_epoch(2);
      auto got = run(loader);
      if (wanted.empty())
        wanted = std::move(got);
      else
        ASSERT_TRUE(got == wanted) << workers << " workers, repetition " << repetition;
    }
  }
  EXPECT_EQ(wanted.size(), 53U * (192 + 1));
}

TEST(DataLoader, OrderSizesAndLastBatch) {
  for (const int workers : {0, 2}) {
    for (const bool drop : {false, true}) {
      DataLoader loader(make_numbers(11), std::make_shared<SequentialSampler>(11),
                        {.batch_size = 4, .drop_last = drop, .workers = workers});
      EXPECT_EQ(loader.size(), drop ? 2 : 3);
      std::vector<std::int64_t> sizes;
      std::int64_t next = 0;
      for (Batch& batch : loader) {
        sizes.push_back(batch.size());
        for (const auto value : batch.input.to_vector<std::int64_t>()) EXPECT_EQ(value, next++);
      }
      EXPECT_EQ(sizes,
                drop ? (std::vector<std::int64_t>{4, 4}) : (std::vector<std::int64_t>{4, 4, 3}));
    }
  }
}

TEST(DataLoader, NothingToLoad) {
  for (const int workers : {0, 3}) {
    DataLoader loader(make_numbers(0), std::make_shared<SequentialSampler>(0),
                      {.workers = workers});
    EXPECT_EQ(loader.size(), 0);
    EXPECT_TRUE(run(loader).empty());
  }
}

TEST(DataLoader, MoreWorkersThanBatches) {
  DataLoader loader(make_numbers(2), std::make_shared<SequentialSampler>(2),
                    {.workers = 8, .prefetch = 5});
  EXPECT_EQ(run(loader), (std::vector<float>{0, 0, 1, 1}));
}

TEST(DataLoader, EpochsDifferAndRepeat) {
  for (const int workers : {0, 2}) {
    DataLoader loader(make_images(20), std::make_shared<RandomSampler>(20),
                      {.batch_size = 8, .workers = workers}, numbers_augmentation());
    loader.set_epoch(1);
    const auto first = run(loader);
    EXPECT_EQ(run(loader), first);
    loader.set_epoch(2);
    EXPECT_NE(run(loader), first);
    loader.set_epoch(1);
    EXPECT_EQ(run(loader), first);
  }
}

TEST(DataLoader, AugmentationFollowsTheSamplersEpoch) {
  auto sampler = std::make_shared<SequentialSampler>(20);
  DataLoader loader(make_images(20), sampler, {.batch_size = 8}, numbers_augmentation());
  const auto first = run(loader);
  sampler->set_epoch(1);
  EXPECT_NE(run(loader), first);
}

TEST(DataLoader, GoesOnFromTheMiddleOfAnEpoch) {
  for (const int workers : {0, 3}) {
    auto make = [&] {
      return DataLoader(make_images(53), std::make_shared<RandomSampler>(53, 4),
                        {.batch_size = 8, .workers = workers}, numbers_augmentation());
    };
    DataLoader whole = make();
    whole.set_epoch(5);
    std::vector<std::vector<float>> batches;
    std::vector<LoaderPosition> positions;
    for (auto it = whole.begin(); it != whole.end(); ++it) {
      batches.push_back(it->input.to_vector<float>());
      positions.push_back(it.next_position());
      EXPECT_EQ(static_cast<std::int64_t>(it.indices().size()), it->size());
    }
    ASSERT_EQ(batches.size(), 7U);
    for (std::size_t stop = 0; stop < batches.size(); ++stop) {
      EXPECT_EQ(positions[stop], (LoaderPosition{5, static_cast<std::int64_t>(stop) + 1}));
      DataLoader rest = make();
      rest.set_position(positions[stop]);
      std::size_t b = stop + 1;
      for (Batch& batch : rest) EXPECT_EQ(batch.input.to_vector<float>(), batches.at(b++));
      EXPECT_EQ(b, batches.size());
      // The next loop has all batches again.
      std::size_t count = 0;
      for (Batch& batch : rest) count += batch.size() > 0;
      EXPECT_EQ(count, batches.size());
    }
    EXPECT_THROW(whole.set_epoch(5, 8), Error);
    EXPECT_THROW(whole.set_epoch(5, -1), Error);
  }
}

/// Throws E at one batch.
template <class E>
Transform fails_at(std::int64_t batch) {
  return [=](Batch b, const BatchContext& context) {
    if (context.batch == batch) throw E("the pixels are upside down");
    return b;
  };
}

TEST(DataLoader, WhatAWorkerThrowsComesOutInItsPlace) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    for (const int workers : {0, 1, 4}) {
      DataLoader loader(make_numbers(20), std::make_shared<SequentialSampler>(20),
                        {.batch_size = 2, .workers = workers}, fails_at<IoError>(5));
      loader.set_epoch(7);
      int batches = 0;
      const std::string sentence = message_of<IoError>([&] {
        for (Batch& batch : loader) batches += static_cast<int>(batch.size() / 2);
      });
      EXPECT_EQ(sentence, "data loader, batch 5 of epoch 7: the pixels are upside down");
      EXPECT_EQ(batches, 5);
    }
  }
}

TEST(DataLoader, TheFirstBatchMayThrowToo) {
  DataLoader loader(make_numbers(4), std::make_shared<SequentialSampler>(4), {.workers = 2},
                    fails_at<ShapeError>(0));
  EXPECT_THROW(loader.begin(), ShapeError);
}

TEST(DataLoader, AfterAnErrorTheLoopIsOver) {
  DataLoader loader(make_numbers(4), std::make_shared<SequentialSampler>(4), {.workers = 2},
                    fails_at<DTypeError>(1));
  auto it = loader.begin();
  EXPECT_THROW(++it, DTypeError);
  EXPECT_TRUE(it == loader.end());
}

TEST(DataLoader, ForeignExceptionsBecomeErrors) {
  for (const int workers : {0, 2}) {
    DataLoader loader(make_numbers(4), std::make_shared<SequentialSampler>(4), {.workers = workers},
                      fails_at<std::logic_error>(2));
    EXPECT_THAT(message_of<Error>([&] { run(loader); }),
                HasSubstr("batch 2 of epoch 0: the pixels"));
    DataLoader odd(make_numbers(4), std::make_shared<SequentialSampler>(4), {.workers = workers},
                   [](Batch, const BatchContext&) -> Batch { throw 3; });
    EXPECT_THAT(message_of<Error>([&] { run(odd); }), HasSubstr("batch 0 of epoch 0"));
  }
}

TEST(DataLoader, AnIndexThatIsNotThereNamesItsBatch) {
  DataLoader loader(make_numbers(4), std::make_shared<SequentialSampler>(6),
                    {.batch_size = 2, .workers = 1});
  EXPECT_THAT(message_of<ShapeError>([&] { run(loader); }),
              HasSubstr("batch 2 of epoch 0: sample 4"));
}

TEST(DataLoader, ADataSetThatReturnsOtherRowsIsNamed) {
  struct Faulty : TensorDataset {
    using TensorDataset::TensorDataset;
    Batch fault;
    Batch get_batch(std::span<const std::int64_t>) const override { return fault; }
  };
  const auto set = std::make_shared<Faulty>(arange(6), arange(6));
  const auto message = [&](const Batch& fault) {
    set->fault = fault;
    DataLoader loader(set, {.batch_size = 3});
    return message_of<Error>([&] { run(loader); });
  };
  EXPECT_THAT(message({arange(2), arange(3)}),
              HasSubstr("batch 0 of epoch 0: the data set returned an input of shape [2] for 3 "
                        "samples, but it must have a row for each"));
  EXPECT_THAT(message({arange(3), scalar(1)}), HasSubstr("returned a target of shape [] for 3"));
  EXPECT_THAT(message({arange(3), {}}), HasSubstr("the target is undefined"));
}

TEST(DataLoader, LeavingInMidEpochStopsTheWorkers) {
  std::atomic<int> made{0};
  auto count = [&](Batch batch, const BatchContext&) {
    ++made;
    return batch;
  };
  for (int repetition = 0; repetition < 50; ++repetition) {
    DataLoader loader(make_numbers(1000), std::make_shared<SequentialSampler>(1000),
                      {.workers = 3, .prefetch = 2}, count);
    made = 0;
    int seen = 0;
    for (Batch& batch : loader) {
      seen += static_cast<int>(batch.size());
      if (seen == repetition % 5 + 1) break;
    }
    // The workers have ended, and never exceeded the number of batches that they may prefetch.
    EXPECT_LE(made, seen + 6);
    EXPECT_GE(made, seen);
  }
}

TEST(DataLoader, TheLoaderMayGoBeforeItsIterator) {
  auto loader = std::make_unique<DataLoader>(
      make_numbers(9), std::make_shared<SequentialSampler>(9), DataLoaderOptions{.workers = 2});
  auto it = loader->begin();
  loader.reset();
  int seen = 0;
  for (; it != std::default_sentinel; ++it) seen += it->input.item<int>();
  EXPECT_EQ(seen, 36);
}

TEST(DataLoader, WorkersWorkInOtherThreads) {
  const auto self = std::this_thread::get_id();
  for (const int workers : {0, 2}) {
    std::atomic<int> here{0};
    DataLoader loader(make_numbers(9), std::make_shared<SequentialSampler>(9), {.workers = workers},
                      [&](Batch batch, const BatchContext&) {
                        here += std::this_thread::get_id() == self;
                        return batch;
                      });
    run(loader);
    EXPECT_EQ(here, workers == 0 ? 9 : 0);
  }
}

// A sample that is drawn again is cropped differently. Its first crop is the one that it has if it
// is drawn only once.
TEST(DataLoader, ASampleThatComesAgainIsAugmentedAnew) {
  const Tensor images = arange(2 * 16 * 16).to(u8).reshape({2, 1, 16, 16});
  const auto set = std::make_shared<TensorDataset>(images, arange(2));
  const ImageTransform crop({RandomCrop{16, 16, 8}}, {.seed = 5});
  const std::vector<double> weights{1, 9};
  std::set<std::vector<int>> looks_of_1;
  for (const int workers : {0, 2}) {
    DataLoader loader(set,
                      std::make_shared<WeightedRandomSampler>(
                          weights, WeightedRandomSamplerOptions{.num_samples = 20, .seed = 1}),
                      {.batch_size = 6, .workers = workers}, crop);
    loader.set_epoch(2);
    std::int64_t came = 0;
    std::array<bool, 2> before{};
    for (Batch& batch : loader) {
      for (std::int64_t k = 0; k < batch.size(); ++k) {
        const auto look = batch.input.narrow(0, k, 1).contiguous().to_vector<int>();
        const auto index = batch.target.narrow(0, k, 1).item<std::int64_t>();
        const std::array one{index};
        const Tensor first = crop.apply(images.narrow(0, index, 1).contiguous(), one, {.epoch = 2});
        if (!std::exchange(before[static_cast<std::size_t>(index)], true)) {
          EXPECT_EQ(look, first.to_vector<int>());
        }
        if (index == 1) {
          looks_of_1.insert(look);
          ++came;
        }
      }
    }
    // There are 17 x 17 positions, so nearly all of n crops differ. Both loops have the same crops.
    EXPECT_GT(came, 10);
    EXPECT_GE(std::ssize(looks_of_1), came - 3);
    EXPECT_LE(std::ssize(looks_of_1), came);
  }
}

/// Batches of increasing size.
struct Growing final : BatchSource {
  std::int64_t size() const override { return 3; }
  std::vector<Indices> batches() const override { return {{0}, {1, 2}, {3, 4, 5}}; }
  void set_epoch(std::uint64_t e) override { now = e; }
  std::uint64_t epoch() const override { return now; }
  std::uint64_t now = 0;
};

TEST(DataLoader, BatchesFromElsewhere) {
  DataLoader loader(make_numbers(6), std::make_shared<Growing>(), {.workers = 2});
  std::vector<std::int64_t> sizes;
  for (Batch& batch : loader) sizes.push_back(batch.size());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_THROW(DataLoader(make_numbers(6), std::make_shared<Growing>(), {.batch_size = 2}), Error);
  EXPECT_THROW(DataLoader(make_numbers(6), std::make_shared<Growing>(), {.drop_last = true}),
               Error);
}

TEST(DataLoader, RefusesImpossibleOptions) {
  const auto set = make_numbers(4);
  const auto sampler = std::make_shared<SequentialSampler>(4);
  EXPECT_ERROR(DataLoader(set, sampler, {.batch_size = 0}), Error,
               "DataLoader: batch_size = 0, but must be at least 1");
  EXPECT_THROW(DataLoader(set, sampler, {.workers = -1}), Error);
  EXPECT_THROW(DataLoader(set, sampler, {.prefetch = 0}), Error);
  EXPECT_THROW(DataLoader(nullptr, sampler), Error);
}

std::vector<std::int64_t> order_of(DataLoader& loader) {
  std::vector<std::int64_t> order;
  for (auto it = loader.begin(); it != loader.end(); ++it)
    order.insert(order.end(), it.indices().begin(), it.indices().end());
  return order;
}

TEST(DataLoader, EachLoopIsANewEpochUnlessOneIsSet) {
  const auto dataset = std::make_shared<TensorDataset>(ones({40, 1}), ones({40}, {.dtype = i64}));
  const auto make = [&] {
    return DataLoader(dataset, std::make_shared<RandomSampler>(40, 5), {.batch_size = 8});
  };
  DataLoader loader = make(), again = make();
  const auto first = order_of(loader), second = order_of(loader), third = order_of(loader);
  EXPECT_NE(first, second);
  EXPECT_NE(second, third);
  again.set_epoch(1);
  EXPECT_EQ(order_of(again), second);
  EXPECT_EQ(order_of(again), second);  // the setting stays
  again.set_epoch(2);
  EXPECT_EQ(order_of(again), third);
  // From the middle of epoch 1, then epoch 2.
  again.set_position({.epoch = 1, .batch = 2});
  EXPECT_EQ(order_of(again), std::vector<std::int64_t>(second.begin() + 16, second.end()));
  EXPECT_EQ(order_of(again), third);
}

TEST(DataLoader, ManualSeedSeedsASamplerThatHasNoSeed) {
  const auto dataset = std::make_shared<TensorDataset>(ones({40, 1}), ones({40}, {.dtype = i64}));
  const auto order = [&](std::uint64_t seed, std::optional<std::uint64_t> own) {
    manual_seed(seed);
    DataLoader loader(dataset, std::make_shared<RandomSampler>(40, own), {.batch_size = 8});
    return order_of(loader);
  };
  EXPECT_EQ(order(1, {}), order(1, {}));
  EXPECT_NE(order(1, {}), order(2, {}));
  EXPECT_EQ(order(1, 7), order(2, 7));
  EXPECT_EQ(order(7, {}), order(1, 7));
}

}  // namespace
}  // namespace rondo::data
