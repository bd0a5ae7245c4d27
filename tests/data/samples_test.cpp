// Data sets of single samples, streams, and the loader's options for them. TSan would detect a race
// of workers that read one stream.

#include "data/samples.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "data/loader.h"
#include "data/subsets.h"
#include "data/transforms.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::message_of;
using ::testing::HasSubstr;

Tensor label(std::int64_t value) { return tensor<std::int64_t>({value}, {}); }

/// Sample i is ([i, i + 1], i²).
struct Squares : SampleDataset {
  explicit Squares(std::int64_t n) : n(n) {}
  std::int64_t size() const override { return n; }
  Sample get(std::int64_t i) const override {
    return {tensor<float>({float(i), float(i + 1)}, {2}), label(i * i)};
  }
  std::int64_t n;
};

/// Sample i has i + 1 elements.
struct Ragged final : Squares {
  using Squares::Squares;
  Sample get(std::int64_t i) const override { return {full({i + 1}, i), label(i)}; }
};

/// Pads inputs with -1 to the longest one.
Batch padded(const std::vector<Sample>& samples) {
  std::int64_t longest = 0;
  for (const Sample& sample : samples) longest = std::max(longest, sample.input.numel());
  std::vector<Sample> equal;
  for (const Sample& sample : samples) {
    Tensor row = full({longest}, -1);
    for (std::int64_t i = 0; i < sample.input.numel(); ++i)
      row.data_ptr<float>()[i] = sample.input.data_ptr<float>()[i];
    equal.push_back({row, sample.target});
  }
  return default_collate(equal);
}

std::vector<std::int64_t> targets_of(DataLoader& loader) {
  std::vector<std::int64_t> all;
  for (auto& [input, target] : loader) {
    const auto values = target.to_vector<std::int64_t>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(SampleDataset, StacksSamples) {
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(std::make_shared<Squares>(7), {.batch_size = 4, .workers = workers});
    std::vector<Dims> shapes;
    std::vector<float> inputs;
    for (auto& [input, target] : loader) {
      shapes.push_back(input.shape());
      EXPECT_EQ(target.shape(), (Dims{input.size(0)}));
      EXPECT_EQ(target.dtype(), i64);
      const auto values = input.to_vector<float>();
      inputs.insert(inputs.end(), values.begin(), values.end());
    }
    EXPECT_EQ(shapes, (std::vector<Dims>{{4, 2}, {3, 2}}));
    EXPECT_EQ(inputs, (std::vector<float>{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7}));
    EXPECT_EQ(targets_of(loader), (std::vector<std::int64_t>{0, 1, 4, 9, 16, 25, 36}));
  }
}

TEST(SampleDataset, StacksViews) {
  struct Columns final : Squares {
    using Squares::Squares;
    Sample get(std::int64_t i) const override {
      const Tensor table = arange(6).reshape({2, 3});
      return {table.as_view({2}, {3}, i), label(i)};
    }
  };
  DataLoader loader(std::make_shared<Columns>(3), {.batch_size = 3});
  EXPECT_EQ(loader.begin()->input.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 3, 1, 4, 2, 5}));
}

TEST(SampleDataset, DifferentSamplesAreNamed) {
  struct Odd final : Squares {
    Odd(Sample odd) : Squares(5), odd(std::move(odd)) {}
    Sample get(std::int64_t i) const override { return i == 3 ? odd : Squares::get(i); }
    Sample odd;
  };
  const auto message = [](const Sample& odd) {
    DataLoader loader(std::make_shared<Odd>(odd), {.batch_size = 2, .workers = 2});
    return message_of<Error>([&] { targets_of(loader); });
  };
  EXPECT_EQ(message({zeros({3}), label(0)}),
            "data loader, batch 1 of epoch 0: the input of sample 3 has shape [3], but that of "
            "sample 2 has [2]; give the loader a collate_fn");
  EXPECT_THAT(message({zeros({2}), zeros({1}, {.dtype = i64})}),
              HasSubstr("the target of sample 3 has shape [1], but that of sample 2 has []"));
  EXPECT_THAT(message({zeros({2}, {.dtype = f64}), label(0)}),
              HasSubstr("the input of sample 3 is f64, but that of sample 2 is f32"));
  EXPECT_THAT(message({{}, label(0)}), HasSubstr("sample 3 has an undefined input"));
  EXPECT_THAT(message({zeros({2}), {}}), HasSubstr("sample 3 has an undefined target"));
  EXPECT_THROW(default_collate({}), Error);
  EXPECT_THROW(Squares(2).get_batch(std::array<std::int64_t, 1>{2}), ShapeError);
}

TEST(SampleDataset, RaggedSamplesNeedACollateFunction) {
  const auto set = std::make_shared<Ragged>(5);
  for (const int workers : {0, 3}) {
    DataLoader plain(set, {.batch_size = 2, .workers = workers});
    EXPECT_THROW(targets_of(plain), ShapeError);
    DataLoader loader(set, {.batch_size = 2, .workers = workers, .collate_fn = padded});
    std::vector<std::vector<float>> batches;
    for (auto& batch : loader) batches.push_back(batch.input.to_vector<float>());
    EXPECT_EQ(batches, (std::vector<std::vector<float>>{
                           {0, -1, 1, 1}, {2, 2, 2, -1, 3, 3, 3, 3}, {4, 4, 4, 4, 4}}));
  }
}

TEST(SampleDataset, ACollateFunctionSeesAnyDataSetsSamples) {
  const auto ragged = std::make_shared<Ragged>(5);
  const auto part = std::make_shared<Subset>(ragged, Indices{4, 2});
  const auto rows = std::make_shared<TensorDataset>(full({2, 2}, 9), arange(100, 102));
  const auto both = std::make_shared<ConcatDataset>(
      std::vector<std::shared_ptr<const Dataset>>{rows, part, ragged});
  DataLoader loader(both, {.batch_size = 4, .collate_fn = padded});
  auto it = loader.begin();
  EXPECT_EQ(it->target.to_vector<std::int64_t>(), (std::vector<std::int64_t>{100, 101, 4, 2}));
  EXPECT_EQ(it->input.to_vector<float>(), (std::vector<float>{9, 9, -1, -1, -1, 9, 9, -1, -1, -1,
                                                              4, 4, 4,  4,  4,  2, 2, 2,  -1, -1}));
  DataLoader undefined(ragged, {.batch_size = 4, .collate_fn = [](const std::vector<Sample>&) {
                                  return Batch{zeros({4}), {}};
                                }});
  EXPECT_THAT(message_of<Error>([&] { undefined.begin(); }), HasSubstr("the target is undefined"));
}

TEST(SampleDataset, RandomSamplesFollowTheStreamOfTheirEpoch) {
  struct Noise final : Squares {
    using Squares::Squares;
    Sample get_epoch_sample(std::uint64_t stream, std::int64_t i) const override {
      return {full({1}, double(stream)), label(i)};
    }
  };
  DataLoader loader(std::make_shared<Noise>(3), {.batch_size = 3, .workers = 1});
  EXPECT_EQ(loader.begin()->input.to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(loader.begin()->input.to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(LoaderOptions, ShuffleIsARandomSampler) {
  const auto set = std::make_shared<Squares>(40);
  DataLoader plain(set, {.batch_size = 8}),
      shuffled(set, {.batch_size = 8, .shuffle = true, .seed = 3});
  DataLoader explicitly(set, {.batch_size = 8, .sampler = std::make_shared<RandomSampler>(40, 3)});
  DataLoader before(set, std::make_shared<RandomSampler>(40, 3), {.batch_size = 8});
  const auto order = targets_of(shuffled);
  EXPECT_NE(order, targets_of(plain));
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 40U);
  EXPECT_EQ(order, targets_of(explicitly));
  EXPECT_EQ(order, targets_of(before));
  EXPECT_NE(order, targets_of(shuffled));  // the next epoch
  manual_seed(3);
  DataLoader unseeded(set, {.batch_size = 8, .shuffle = true});
  EXPECT_EQ(order, targets_of(unseeded));
  DataLoader dropped(set, {.batch_size = 16, .shuffle = true, .drop_last = true, .workers = 2});
  EXPECT_EQ(dropped.size(), 2);
  EXPECT_EQ(targets_of(dropped).size(), 32U);
}

TEST(LoaderOptions, RanksShareTheSamples) {
  const auto set = std::make_shared<Squares>(10);
  for (const bool shuffle : {false, true}) {
    std::multiset<std::int64_t> seen;
    for (int rank = 0; rank < 2; ++rank) {
      DataLoader loader(set, {.batch_size = 2, .shuffle = shuffle, .rank = rank, .world_size = 2});
      EXPECT_EQ(loader.size(), 3);
      const auto mine = targets_of(loader);
      DataLoader wanted(
          set,
          {.batch_size = 2,
           .sampler = std::make_shared<DistributedSampler>(
               10, DistributedSamplerOptions{.rank = rank, .world_size = 2, .shuffle = shuffle})});
      EXPECT_EQ(mine, targets_of(wanted));
      seen.insert(mine.begin(), mine.end());
    }
    EXPECT_EQ(seen, (std::multiset<std::int64_t>{0, 1, 4, 9, 16, 25, 36, 49, 64, 81}));
  }
}

TEST(LoaderOptions, ContradictionsAreRefused) {
  const auto set = std::make_shared<Squares>(4);
  const auto sampler = std::make_shared<SequentialSampler>(4);
  const auto batches = std::make_shared<BatchSampler>(sampler, 2);
  EXPECT_THROW(DataLoader(set, {.shuffle = true, .sampler = sampler}), Error);
  EXPECT_THROW(DataLoader(set, {.sampler = sampler, .world_size = 2}), Error);
  EXPECT_THROW(DataLoader(set, {.sampler = sampler, .seed = 2}), Error);
  EXPECT_THROW(DataLoader(set, {.batch_sampler = batches, .seed = 2}), Error);
  EXPECT_THROW(DataLoader(set, {.shuffle = true, .batch_sampler = batches}), Error);
  EXPECT_THROW(DataLoader(set, {.batch_size = 2, .batch_sampler = batches}), Error);
  EXPECT_THROW(DataLoader(set, {.sampler = sampler, .batch_sampler = batches}), Error);
  EXPECT_THROW(DataLoader(set, sampler, {.sampler = sampler}), Error);
  EXPECT_THROW(DataLoader(set, {.rank = 2, .world_size = 2}), Error);
  EXPECT_THROW(DataLoader(std::shared_ptr<const Dataset>()), Error);
  EXPECT_THROW(DataLoader(set, std::shared_ptr<Sampler>()), Error);
}

TEST(Transforms, LambdasOfABatchAndOfASample) {
  const auto set = std::make_shared<Squares>(4);
  const auto inputs = [&](Transform transform) {
    DataLoader loader(set, {.batch_size = 4, .workers = 1}, std::move(transform));
    return loader.begin()->input.to_vector<float>();
  };
  EXPECT_EQ(inputs([](Batch batch) {
              return Batch{batch.input * 2.0, batch.target};
            }),
            (std::vector<float>{0, 2, 2, 4, 4, 6, 6, 8}));
  EXPECT_EQ(inputs([](Batch batch, const BatchContext& context) {
              return Batch{batch.input + double(context.batch), batch.target};
            }),
            (std::vector<float>{0, 1, 1, 2, 2, 3, 3, 4}));
  EXPECT_EQ(inputs(for_each_sample([](Sample sample) {
              return Sample{sample.input.sum(), sample.target};
            })),
            (std::vector<float>{1, 3, 5, 7}));
  EXPECT_THAT(message_of<ShapeError>([&] {
                inputs(for_each_sample([](Sample sample) {
                  return Sample{zeros({sample.target.item<std::int64_t>() + 1}), sample.target};
                }));
              }),
              HasSubstr("the input of sample 1 has shape [2], but that of sample 0 has [1]"));
}

/// Counts from 100 × epoch; `n` samples. Counts its reads.
struct Numbers : IterableDataset {
  explicit Numbers(std::int64_t n) : n(n) {}
  Next open(std::uint64_t epoch) const override { return from(epoch, 0); }
  Next from(std::uint64_t epoch, std::int64_t first) const {
    return [this, epoch, i = first]() mutable -> std::optional<Sample> {
      ++reads;
      if (i >= n) return {};
      const auto value = static_cast<std::int64_t>(100 * epoch) + i++;
      return Sample{full({2}, double(value)), label(value)};
    };
  }
  std::int64_t n;
  mutable std::atomic<int> reads = 0;
};

struct SeekableNumbers final : Numbers {
  using Numbers::Numbers;
  Next open_at(std::uint64_t epoch, std::int64_t first) const override {
    return from(epoch, first);
  }
};

std::vector<std::int64_t> consecutive(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = first; i < end; ++i) all.push_back(i);
  return all;
}

TEST(IterableDataset, AnyNumberOfWorkersGivesTheSameBatches) {
  for (const std::int64_t n : {0, 1, 4, 11, 12}) {
    for (const bool drop : {false, true}) {
      for (const int workers : {0, 1, 2, 4}) {
        DataLoader loader(
            std::make_shared<Numbers>(n),
            {.batch_size = 4, .drop_last = drop, .workers = workers, .prefetch = 1 + workers % 3});
        const std::int64_t end = drop ? n / 4 * 4 : n;
        EXPECT_EQ(targets_of(loader), consecutive(0, end)) << n << " " << workers;
        EXPECT_EQ(targets_of(loader), consecutive(100, 100 + end)) << n << " " << workers;
      }
    }
  }
}

TEST(IterableDataset, ResumesExactly) {
  for (const int workers : {0, 3}) {
    const auto numbers = std::make_shared<Numbers>(22);
    const auto seekable = std::make_shared<SeekableNumbers>(22);
    DataLoader whole(numbers, {.batch_size = 4, .workers = workers});
    whole.set_epoch(2);
    std::vector<LoaderPosition> positions;
    for (auto it = whole.begin(); it != whole.end(); ++it) {
      const std::int64_t first = 4 * std::ssize(positions);
      EXPECT_EQ(Indices(it.indices().begin(), it.indices().end()),
                consecutive(first, std::min<std::int64_t>(first + 4, 22)));
      positions.push_back(it.next_position());
    }
    ASSERT_EQ(positions.size(), 6U);
    EXPECT_EQ(positions[1], (LoaderPosition{2, 2}));
    for (const LoaderPosition& position : positions) {
      for (const std::shared_ptr<const IterableDataset>& stream :
           {std::shared_ptr<const IterableDataset>(numbers),
            std::shared_ptr<const IterableDataset>(seekable)}) {
        DataLoader rest(stream, {.batch_size = 4, .workers = workers});
        rest.set_position(position);
        EXPECT_EQ(targets_of(rest),
                  consecutive(200 + std::min<std::int64_t>(4 * position.batch, 22), 222));
        EXPECT_EQ(targets_of(rest), consecutive(300, 322));
      }
    }
    seekable->reads = 0;
    DataLoader last(seekable, {.batch_size = 4});
    last.set_position(positions[4]);
    EXPECT_EQ(targets_of(last).size(), 2U);
    EXPECT_EQ(seekable->reads, 3);
  }
}

TEST(IterableDataset, CollatesAndTransforms) {
  struct Growing final : IterableDataset {
    Next open(std::uint64_t) const override {
      return [i = std::int64_t{0}]() mutable -> std::optional<Sample> {
        if (i == 3) return {};
        ++i;
        return Sample{full({i}, double(i)), label(i)};
      };
    }
  };
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Growing>(),
                      {.batch_size = 2, .workers = workers, .collate_fn = padded}, [](Batch batch) {
                        return Batch{batch.input * 10.0, batch.target};
                      });
    std::vector<std::vector<float>> batches;
    for (auto& batch : loader) batches.push_back(batch.input.to_vector<float>());
    EXPECT_EQ(batches, (std::vector<std::vector<float>>{{10, -10, 20, 20}, {30, 30, 30}}));
    DataLoader plain(std::make_shared<Growing>(), {.batch_size = 2, .workers = workers});
    EXPECT_THAT(message_of<ShapeError>([&] { targets_of(plain); }),
                HasSubstr("batch 0 of epoch 0: the input of sample 1 has shape [2]"));
  }
}

TEST(IterableDataset, AnErrorComesInItsPlace) {
  struct Broken final : IterableDataset {
    Next open(std::uint64_t) const override {
      return [i = std::int64_t{0}]() mutable -> std::optional<Sample> {
        require<IoError>(i < 9, "line 10 is damaged");
        return Sample{zeros({1}), label(i++)};
      };
    }
  };
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(std::make_shared<Broken>(), {.batch_size = 2, .workers = workers});
    std::int64_t seen = 0;
    EXPECT_EQ(message_of<IoError>([&] {
                for (auto& batch : loader) seen += batch.size();
              }),
              "data loader, batch 4 of epoch 0: line 10 is damaged");
    EXPECT_EQ(seen, 8);
  }
}

TEST(IterableDataset, AnEndlessStreamMayBeLeft) {
  const auto numbers = std::make_shared<Numbers>(std::int64_t{1} << 60);
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(numbers, {.batch_size = 5, .workers = workers});
    std::int64_t seen = 0;
    numbers->reads = 0;
    for (auto& batch : loader) {
      seen += batch.size();
      if (seen == 20) break;
    }
    EXPECT_LE(numbers->reads, 20 + 5 * 2 * workers);
  }
}

TEST(IterableDataset, HasNoSizeAndNoOrder) {
  const auto numbers = std::make_shared<Numbers>(4);
  DataLoader loader(numbers);
  EXPECT_THAT(message_of<Error>([&] { loader.size(); }), HasSubstr("a stream has no size"));
  EXPECT_THROW(loader.dataset(), Error);
  EXPECT_THROW(loader.set_epoch(0, -1), Error);
  EXPECT_THROW(DataLoader(numbers, {.batch_size = 0}), Error);
  EXPECT_THROW(DataLoader(numbers, {.shuffle = true}), Error);
  EXPECT_THROW(DataLoader(numbers, {.world_size = 2}), Error);
  EXPECT_THROW(DataLoader(numbers, {.workers = -1}), Error);
  EXPECT_THROW(DataLoader(std::shared_ptr<const IterableDataset>()), Error);
}

}  // namespace
}  // namespace rondo::data
