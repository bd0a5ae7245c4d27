// Data sets made from other data sets: their samples, PyTorch's lengths where PyTorch has special
// rules, and errors.

#include "data/subsets.h"

#include <numeric>
#include <set>

#include "data/loader.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::data {
namespace {

/// Sample i is the row (first + i, first + i) and has target i.
std::shared_ptr<const Dataset> numbers(std::int64_t n, std::int64_t first = 0) {
  const Tensor rows = Tensor::empty({n, 2}, {.dtype = i64});
  for (std::int64_t i = 0; i < 2 * n; ++i) rows.data_ptr<std::int64_t>()[i] = first + i / 2;
  return std::make_shared<TensorDataset>(rows, arange(n));
}

TEST(Subset, TranslatesNumbers) {
  const Subset part(numbers(10), {7, 2, 7});
  EXPECT_EQ(part.size(), 3);
  const Indices asked{2, 1};
  EXPECT_EQ(part.get_batch(asked).input.to_vector<int>(), (std::vector<int>{7, 7, 2, 2}));
  EXPECT_EQ(part.get_epoch_batch({4}, asked).target.to_vector<int>(), (std::vector<int>{7, 2}));
  const Subset part_of_part(std::make_shared<Subset>(part), {1});
  const Indices first{0};
  EXPECT_EQ(part_of_part.get_batch(first).target.to_vector<int>(), (std::vector<int>{2}));
}

TEST(Subset, RefusesNumbersOutside) {
  EXPECT_ERROR(Subset(numbers(3), {0, 3}), ShapeError, "sample 3 was asked for");
  EXPECT_ERROR(Subset(numbers(3), {-1}), ShapeError, "sample -1 was asked for");
  EXPECT_ERROR(Subset(nullptr, {}), Error, "Subset: no data set");
  const Indices outside{1};
  EXPECT_ERROR(Subset(numbers(3), {2}).get_batch(outside), ShapeError, "has 1 samples");
}

TEST(RandomSplit, SharesGivePyTorchsLengths) {
  const test::Golden golden("samplers.txt");
  const std::vector<std::vector<double>> lists{{1},
                                               {0.5, 0.5},
                                               {0.9, 0.1},
                                               {0.33, 0.33, 0.34},
                                               {0.1, 0.2, 0.3, 0.4},
                                               {0, 1},
                                               {0.25, 0.25, 0.25, 0.25}};
  for (const std::int64_t n : {1, 7, 10, 101}) {
    for (const auto& shares : lists) {
      std::string name = concat("split.n", n);
      for (const double share : shares) name += concat(".", std::lround(100 * share));
      std::vector<std::int64_t> lengths;
      for (const auto& part : random_split(numbers(n), shares)) lengths.push_back(part->size());
      EXPECT_EQ(lengths, golden[name].to_vector<std::int64_t>()) << name;
    }
  }
}

TEST(RandomSplit, PartsDoNotOverlapAndDependOnTheSeed) {
  const auto set = numbers(100);
  const auto parts = random_split(set, {60, 30, 10}, 4);
  std::set<std::int64_t> seen;
  for (const auto& part : parts) seen.insert(part->indices().begin(), part->indices().end());
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_EQ(parts[1]->size(), 30);
  EXPECT_EQ(random_split(set, {60, 30, 10}, 4)[0]->indices(), parts[0]->indices());
  EXPECT_NE(random_split(set, {60, 30, 10}, 5)[0]->indices(), parts[0]->indices());
  Indices sorted = parts[0]->indices();
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(sorted, parts[0]->indices());
}

TEST(RandomSplit, RefusesLengthsThatDoNotAddUp) {
  EXPECT_ERROR(random_split(numbers(10), {5, 4}), Error,
               "random_split: lengths add up to 9; expected 10, the size of the data set, or 1 for "
               "shares of it");
  EXPECT_ERROR(random_split(numbers(10), {0.5, 0.4}), Error, "add up to 0.9");
  EXPECT_ERROR(random_split(numbers(10), {11, -1}), Error, "a length of -1");
  EXPECT_ERROR(random_split(numbers(10), {5.5, 4.5}), Error, "a length of 5.5 samples");
  EXPECT_ERROR(random_split(numbers(10), {}), Error, "add up to 0");
  EXPECT_ERROR(random_split(nullptr, {1}), Error, "no data set");
}

TEST(ConcatDataset, PutsRowsBackInOrder) {
  const ConcatDataset both({numbers(3), numbers(0), numbers(4, 100), numbers(2, 200)});
  EXPECT_EQ(both.size(), 9);
  EXPECT_EQ(both.cumulative_sizes(), (std::vector<std::int64_t>{3, 3, 7, 9}));
  const Indices asked{8, 0, 3, 6, 2, 3};
  const Batch batch = both.get_batch(asked);
  EXPECT_EQ(batch.input.to_vector<int>(),
            (std::vector<int>{201, 201, 0, 0, 100, 100, 103, 103, 2, 2, 100, 100}));
  EXPECT_EQ(batch.target.to_vector<int>(), (std::vector<int>{1, 0, 0, 3, 2, 0}));
  const Indices alone{4, 5};
  EXPECT_EQ(both.get_batch(alone).target.to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(both.get_batch({}).size(), 0);
}

std::shared_ptr<ImageDataset> images(std::vector<std::string> names) {
  return std::make_shared<ImageDataset>(zeros({2, 3, 4, 4}, {.dtype = u8}),
                                        tensor<std::int64_t>({0, 1}), std::move(names));
}

TEST(ConcatDataset, KnowsTheClassesThatAllHave) {
  EXPECT_EQ(ConcatDataset({images({"a", "b"}), images({"a", "b"})}).class_names().size(), 2U);
  const ConcatDataset mixed({images({"a", "b"}), images({"a", "b", "c"})});
  EXPECT_TRUE(mixed.class_names().empty());
  EXPECT_EQ(mixed.num_classes(), 3);
}

TEST(ConcatDataset, RefusesWhatDoesNotFitTogether) {
  EXPECT_ERROR(ConcatDataset({}), Error, "ConcatDataset: no data sets");
  EXPECT_ERROR(ConcatDataset({nullptr}), Error, "one of its data sets is null");
  const ConcatDataset both({numbers(3), images({"a", "b"})});
  const Indices asked{0, 3}, outside{5};
  EXPECT_ERROR(both.get_batch(asked), ShapeError, "rows of [2, 2] and of [2, 3, 4, 4]");
  EXPECT_ERROR(both.get_batch(outside), ShapeError, "sample 5 was asked for");
  const ConcatDataset types(
      {numbers(3), std::make_shared<TensorDataset>(zeros({3, 2}), arange(3))});
  EXPECT_ERROR(types.get_batch(asked), DTypeError, "as i64 and as f32");
}

// The epoch is passed on to the inner data sets.
TEST(DataSetsOfDataSets, PassTheEpochOn) {
  class Epochs final : public Dataset {
   public:
    std::int64_t size() const override { return 2; }
    Batch get_batch(std::span<const std::int64_t>) const override { return {}; }
    Batch get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const override {
      const Tensor all = full({std::ssize(indices)}, static_cast<double>(draw.epoch));
      return {all, all};
    }
  };
  const auto epochs = std::make_shared<Epochs>();
  const auto both = std::make_shared<ConcatDataset>(std::vector<std::shared_ptr<const Dataset>>{
      epochs, std::make_shared<Subset>(epochs, Indices{1})});
  DataLoader loader(both, std::make_shared<SequentialSampler>(3), {.batch_size = 3});
  loader.set_epoch(6);
  for (const Batch& batch : loader)
    EXPECT_EQ(batch.input.to_vector<int>(), (std::vector<int>{6, 6, 6}));
}

}  // namespace
}  // namespace rondo::data
