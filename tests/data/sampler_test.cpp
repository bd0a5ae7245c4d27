// Orders and shares compared with PyTorch's index lists (tests/golden/make_samplers.py).

#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::data {
namespace {

Indices row_of(const Tensor& table, std::int64_t row) {
  const auto* begin = table.data_ptr<std::int64_t>() + row * table.size(1);
  return {begin, begin + table.size(1)};
}

constexpr std::int64_t sizes[] = {1, 2, 3, 4, 7, 11, 12, 13, 101};

TEST(DistributedSampler, InOrderItGivesPyTorchsLists) {
  const test::Golden golden("samplers.txt");
  for (const std::int64_t n : sizes) {
    for (int world = 1; world <= 5; ++world) {
      for (const bool drop : {false, true}) {
        const std::string name = concat("ordered.n", n, ".w", world, ".d", int{drop});
        const Tensor wanted = golden[name];
        for (int rank = 0; rank < world; ++rank) {
          const DistributedSampler sampler(
              n, {.rank = rank, .world_size = world, .shuffle = false, .drop_last = drop});
          EXPECT_EQ(sampler.indices(), row_of(wanted, rank)) << name << ", rank " << rank;
          EXPECT_EQ(sampler.size(), wanted.size(1)) << name;
        }
      }
    }
  }
}

TEST(DistributedSampler, OfPyTorchsPermutationItGivesPyTorchsLists) {
  const test::Golden golden("samplers.txt");
  for (const std::int64_t n : sizes) {
    if (n > 13) continue;
    for (int world = 1; world <= 5; ++world) {
      for (const bool drop : {false, true}) {
        const std::string name = concat("n", n, ".w", world, ".d", int{drop});
        const Indices order = golden["permutation." + name].to_vector<std::int64_t>();
        const Tensor wanted = golden["shuffled." + name];
        for (int rank = 0; rank < world; ++rank) {
          EXPECT_EQ(distribute(order, {.rank = rank, .world_size = world, .drop_last = drop}),
                    row_of(wanted, rank))
              << name << ", rank " << rank;
        }
      }
    }
  }
}

TEST(DistributedSampler, UnevenSharesHaveEachIndexOnce) {
  for (const std::int64_t n : {0, 1, 2, 3, 4, 11, 12, 13, 101}) {
    for (int world = 1; world <= 5; ++world) {
      for (const bool shuffle : {false, true}) {
        Indices all;
        for (int rank = 0; rank < world; ++rank) {
          const DistributedSampler sampler(
              n, {.rank = rank, .world_size = world, .shuffle = shuffle, .even = false});
          const Indices share = sampler.indices();
          EXPECT_EQ(static_cast<std::int64_t>(share.size()), sampler.size());
          all.insert(all.end(), share.begin(), share.end());
        }
        std::sort(all.begin(), all.end());
        EXPECT_EQ(all, SequentialSampler(n).indices());
      }
    }
  }
}

TEST(DistributedSampler, NothingToShare) {
  const DistributedSampler sampler(0, {.rank = 1, .world_size = 3});
  EXPECT_EQ(sampler.size(), 0);
  EXPECT_TRUE(sampler.indices().empty());
}

TEST(DistributedSampler, BatchesOfAllRanksAreTheBatchOfOneProcess) {
  constexpr std::int64_t n = 48, batch = 12;
  for (const int world : {1, 2, 3, 4}) {
    auto one = std::make_shared<RandomSampler>(n, 5);
    one->set_epoch(3);
    const auto whole = BatchSampler(one, batch).batches();
    std::vector<std::set<std::int64_t>> together(whole.size());
    for (int rank = 0; rank < world; ++rank) {
      auto mine = std::make_shared<DistributedSampler>(
          n, DistributedSamplerOptions{.rank = rank, .world_size = world, .seed = 5});
      mine->set_epoch(3);
      const auto batches = BatchSampler(mine, batch / world).batches();
      ASSERT_EQ(batches.size(), whole.size());
      for (std::size_t b = 0; b < batches.size(); ++b) {
        together[b].insert(batches[b].begin(), batches[b].end());
      }
    }
    for (std::size_t b = 0; b < whole.size(); ++b) {
      EXPECT_EQ(together[b], std::set<std::int64_t>(whole[b].begin(), whole[b].end()));
    }
  }
}

TEST(DistributedSampler, RefusesARankOutsideTheWorld) {
  EXPECT_THROW(DistributedSampler(4, {.rank = 2, .world_size = 2}), Error);
  EXPECT_THROW(DistributedSampler(4, {.rank = -1, .world_size = 2}), Error);
  EXPECT_THROW(DistributedSampler(4, {.rank = 0, .world_size = 0}), Error);
  EXPECT_THROW(DistributedSampler(-1), Error);
  EXPECT_THROW(SequentialSampler(-1), Error);
  EXPECT_THROW(RandomSampler(-1), Error);
}

TEST(RandomSampler, EachEpochIsAnotherPermutation) {
  RandomSampler sampler(101, 7);
  std::set<Indices> seen;
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
    sampler.set_epoch(epoch);
    Indices order = sampler.indices();
    EXPECT_EQ(order, sampler.indices());  // a function of (seed, epoch)
    EXPECT_EQ(order, permutation(101, 7, epoch));
    seen.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, SequentialSampler(101).indices());
  }
  EXPECT_EQ(seen.size(), 10U);
  EXPECT_NE(permutation(101, 7, 0), permutation(101, 8, 0));
}

TEST(RandomSampler, AllPermutationsAreEquallyLikely) {
  // 4 elements have 24 permutations, and there are 24000 epochs: each count is binomial with mean
  // 1000 and standard deviation 31. With another generator or seed the bound of five deviations
  // fails with probability 1e-5.
  std::map<Indices, int> counts;
  for (std::uint64_t epoch = 0; epoch < 24000; ++epoch) ++counts[permutation(4, 1, epoch)];
  ASSERT_EQ(counts.size(), 24U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 5 * 31);
}

TEST(RandomSampler, SmallestSizes) {
  EXPECT_TRUE(RandomSampler(0).indices().empty());
  EXPECT_EQ(RandomSampler(1).indices(), Indices{0});
}

TEST(BatchSampler, GivesPyTorchsBatches) {
  const test::Golden golden("samplers.txt");
  for (const std::int64_t n : {0, 1, 4, 7, 12, 13}) {
    for (const std::int64_t size : {1, 3, 4, 13, 20}) {
      for (const bool drop : {false, true}) {
        const std::string name = concat("batches.n", n, ".b", size, ".d", int{drop});
        const Tensor wanted = golden[name];
        const BatchSampler sampler(std::make_shared<SequentialSampler>(n), size, drop);
        ASSERT_EQ(sampler.size(), wanted.size(0)) << name;
        const auto batches = sampler.batches();
        ASSERT_EQ(static_cast<std::int64_t>(batches.size()), wanted.size(0)) << name;
        for (std::int64_t b = 0; b < wanted.size(0); ++b) {
          Indices row = row_of(wanted, b);
          std::erase(row, -1);
          EXPECT_EQ(batches[static_cast<std::size_t>(b)], row) << name;
        }
      }
    }
  }
}

TEST(BatchSampler, RefusesImpossibleArguments) {
  auto sampler = std::make_shared<SequentialSampler>(3);
  EXPECT_THROW(BatchSampler(sampler, 0), Error);
  EXPECT_THROW(BatchSampler(sampler, -1), Error);
  EXPECT_THROW(BatchSampler(nullptr, 1), Error);
}

TEST(BatchSampler, ForwardsTheEpoch) {
  auto sampler = std::make_shared<RandomSampler>(20);
  BatchSampler batches(sampler, 6);
  batches.set_epoch(4);
  EXPECT_EQ(sampler->epoch(), 4U);
  EXPECT_EQ(batches.epoch(), 4U);
}

// The parts of 1, 2 and 4 ranks, concatenated by rank, are the same batches.
TEST(ShardedBatches, AreTheSameForAnyNumberOfRanks) {
  const ShardedBatches alone(101, {.batch_size = 16, .shards = 8, .seed = 3});
  EXPECT_EQ(alone.total_size(), 104);
  EXPECT_EQ(alone.size(), 7);
  const std::vector<Indices> whole = alone.batches();
  EXPECT_EQ(whole.size(), 7U);
  EXPECT_EQ(whole.back().size(), 8U);
  Indices seen;
  for (const Indices& batch : whole) seen.insert(seen.end(), batch.begin(), batch.end());
  EXPECT_EQ(Indices(seen.begin(), seen.begin() + 3), Indices(seen.begin() + 101, seen.end()));
  seen.resize(101);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, SequentialSampler(101).indices());
  for (int ranks : {2, 4, 8}) {
    std::vector<Indices> together(whole.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const ShardedBatches part(
          101, {.batch_size = 16, .rank = rank, .world_size = ranks, .shards = 8, .seed = 3});
      EXPECT_EQ(part.size(), 7);
      const auto batches = part.batches();
      for (std::size_t b = 0; b < batches.size(); ++b)
        together[b].insert(together[b].end(), batches[b].begin(), batches[b].end());
    }
    EXPECT_EQ(together, whole);
  }
}

TEST(ShardedBatches, OtherEpochsHaveOtherOrders) {
  ShardedBatches batches(40, {.batch_size = 8, .shards = 4});
  const auto first = batches.batches();
  batches.set_epoch(1);
  EXPECT_NE(batches.batches(), first);
  EXPECT_EQ(ShardedBatches(0, {.batch_size = 8, .shards = 4}).size(), 0);
}

TEST(ShardedBatches, RefusesWhatDoesNotDivide) {
  EXPECT_THROW(ShardedBatches(10, {.batch_size = 6, .shards = 4}), Error);
  EXPECT_THROW(ShardedBatches(10, {.batch_size = 0, .shards = 4}), Error);
  EXPECT_THROW(ShardedBatches(10, {.batch_size = 8, .world_size = 3, .shards = 4}), Error);
  EXPECT_THROW(ShardedBatches(10, {.batch_size = 8, .rank = 2, .world_size = 2, .shards = 4}),
               Error);
  EXPECT_THROW(ShardedBatches(-1, {.batch_size = 8, .shards = 4}), Error);
}

/// How often each index occurs in 400 epochs.
std::vector<double> counts(WeightedRandomSampler& sampler, std::size_t n) {
  std::vector<double> counts(n);
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
    sampler.set_epoch(epoch);
    for (const std::int64_t index : sampler.indices()) ++counts.at(static_cast<std::size_t>(index));
  }
  return counts;
}

TEST(WeightedRandomSampler, DrawsInProportion) {
  WeightedRandomSampler sampler({1, 0, 3, 0.5, 5.5, 0}, {.num_samples = 50, .seed = 1});
  const auto drawn = counts(sampler, 6);
  const std::vector<double> wanted{2000, 0, 6000, 1000, 11000, 0};  // of 20000
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(drawn[i], wanted[i], 5 * std::sqrt(wanted[i])) << i;
}

TEST(WeightedRandomSampler, WithoutReplacementEachComesOnceAndTheFirstInProportion) {
  const std::vector<double> weights{1, 0, 3, 4};
  std::vector<double> first(4), second_after_3(4);
  WeightedRandomSampler sampler(weights, {.num_samples = 3, .replacement = false, .seed = 2});
  for (std::uint64_t epoch = 0; epoch < 8000; ++epoch) {
    sampler.set_epoch(epoch);
    const Indices order = sampler.indices();
    ASSERT_EQ(std::set<std::int64_t>(order.begin(), order.end()),
              (std::set<std::int64_t>{0, 2, 3}));
    ++first[static_cast<std::size_t>(order[0])];
    if (order[0] == 3) ++second_after_3[static_cast<std::size_t>(order[1])];
  }
  const std::vector<double> wanted{1000, 0, 3000, 4000};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(first[i], wanted[i], 5 * std::sqrt(wanted[i]));
  EXPECT_NEAR(second_after_3[0] / first[3], 0.25, 0.035);  // 1 of the rest, 1 + 3
}

TEST(WeightedRandomSampler, RanksShareOneList) {
  const std::vector<double> weights{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (const bool replacement : {true, false}) {
    for (const bool drop : {false, true}) {
      WeightedRandomSampler whole(weights,
                                  {.num_samples = 11, .replacement = replacement, .seed = 3});
      whole.set_epoch(5);
      for (int rank = 0; rank < 3; ++rank) {
        WeightedRandomSampler share(weights, {.num_samples = 11,
                                              .replacement = replacement,
                                              .seed = 3,
                                              .rank = rank,
                                              .world_size = 3,
                                              .drop_last = drop});
        share.set_epoch(5);
        EXPECT_EQ(share.size(), drop ? 3 : 4);
        EXPECT_EQ(share.indices(),
                  distribute(whole.indices(), {.rank = rank, .world_size = 3, .drop_last = drop}));
      }
    }
  }
}

// Of all ranks' draws of one sample, the r-th has r draws before it, whichever rank draws it.
TEST(WeightedRandomSampler, CountsWhatCameBefore) {
  const std::vector<double> weights{1, 1, 6};
  std::vector<Indices> seen(3);
  std::vector<Indices> orders, repeats;
  for (int rank = 0; rank < 2; ++rank) {
    WeightedRandomSampler share(weights,
                                {.num_samples = 40, .seed = 3, .rank = rank, .world_size = 2});
    share.set_epoch(4);
    orders.push_back(share.indices());
    repeats.push_back(share.repeats());
    ASSERT_EQ(repeats.back().size(), 20U);
  }
  for (std::size_t k = 0; k < 40; ++k)
    seen[static_cast<std::size_t>(orders[k % 2][k / 2])].push_back(repeats[k % 2][k / 2]);
  for (const Indices& counted : seen)
    EXPECT_EQ(counted, SequentialSampler(std::ssize(counted)).indices());
  EXPECT_TRUE(
      WeightedRandomSampler(weights, {.num_samples = 3, .replacement = false}).repeats().empty());
}

TEST(WeightedRandomSampler, EpochsAndSeedsDiffer) {
  const std::vector<double> weights(100, 0.1);
  for (const bool replacement : {true, false}) {
    WeightedRandomSampler a(weights, {.num_samples = 50, .replacement = replacement, .seed = 1});
    WeightedRandomSampler b(weights, {.num_samples = 50, .replacement = replacement, .seed = 2});
    const Indices first = a.indices();
    EXPECT_EQ(a.indices(), first);
    EXPECT_NE(b.indices(), first);
    a.set_epoch(1);
    EXPECT_NE(a.indices(), first);
  }
}

TEST(WeightedRandomSampler, RefusesWhatCannotBeDrawn) {
  const auto make = [](std::vector<double> weights, WeightedRandomSamplerOptions options) {
    return WeightedRandomSampler(std::move(weights), options);
  };
  EXPECT_ERROR(make({1, -1}, {.num_samples = 1}), Error, "weight 1 is -1");
  EXPECT_ERROR(make({std::nan("")}, {.num_samples = 1}), Error, "weight 0 is");
  EXPECT_ERROR(make({0, 0}, {.num_samples = 1}), Error, "2 weights add up to 0");
  EXPECT_ERROR(make({}, {.num_samples = 1}), Error, "0 weights add up to 0");
  EXPECT_ERROR(make({1}, {.num_samples = 0}), Error, "num_samples = 0");
  EXPECT_ERROR(make({1, 0, 1}, {.num_samples = 3, .replacement = false}), Error,
               "3 samples without replacement, but 2 weights are positive");
  EXPECT_ERROR(make({1}, {.num_samples = 1, .rank = 2, .world_size = 2}), Error,
               "rank 2 of a world of 2");
}

TEST(SubsetRandomSampler, ShufflesItsIndices) {
  SubsetRandomSampler sampler({7, 5, 3, 1, 9, 11, 13, 15}, 4);
  EXPECT_EQ(sampler.size(), 8);
  const Indices first = sampler.indices();
  EXPECT_THAT(first, testing::UnorderedElementsAre(7, 5, 3, 1, 9, 11, 13, 15));
  sampler.set_epoch(1);
  EXPECT_NE(sampler.indices(), first);
  sampler.set_epoch(0);
  EXPECT_EQ(sampler.indices(), first);
}

}  // namespace
}  // namespace rondo::data
