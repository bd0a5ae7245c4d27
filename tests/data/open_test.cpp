#include "data/open.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "support/errors.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(OpenDataset, EachNameHasStatisticsOfItsChannels) {
  for (const auto& name : dataset_names()) {
    const auto [mean, std] = statistics_of(name);
    EXPECT_EQ(mean.size(), name.starts_with("cifar") ? 3U : 1U);
    EXPECT_EQ(mean.size(), std.size());
  }
  EXPECT_THROW(statistics_of("imagenet"), Error);
  EXPECT_THAT(test::message_of<Error>([] { open_dataset("imagenet", Split::test); }),
              HasSubstr("imagenet"));
}

/// Mean and standard deviation of each channel in [0, 1].
ImageStatistics measure(const ImageDataset& set) {
  ImageStatistics result;
  const std::int64_t plane = set.height() * set.width();
  const auto* bytes = set.images().data_ptr<std::uint8_t>();
  for (std::int64_t c = 0; c < set.channels(); ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t n = 0; n < set.size(); ++n) {
      for (std::int64_t i = 0; i < plane; ++i) {
        const double value = bytes[(n * set.channels() + c) * plane + i] / 255.0;
        sum += value;
        squares += value * value;
      }
    }
    const auto count = static_cast<double>(set.size() * plane);
    const double mean = sum / count;
    result.mean.push_back(static_cast<float>(mean));
    result.std.push_back(static_cast<float>(std::sqrt(squares / count - mean * mean)));
  }
  return result;
}

TEST(OpenDataset, OfficialSetsHaveTheirStatistics) {
  int seen = 0;
  for (const auto& name : dataset_names()) {
    std::shared_ptr<ImageDataset> set;
    try {
      set = open_dataset(name, Split::train, {.download = {.allow_download = false}});
    } catch (const IoError&) {
      continue;  // not on this machine
    }
    ++seen;
    const auto wanted = statistics_of(name), measured = measure(*set);
    ASSERT_EQ(wanted.mean.size(), measured.mean.size());
    for (std::size_t c = 0; c < wanted.mean.size(); ++c) {
      EXPECT_NEAR(wanted.mean[c], measured.mean[c], 1e-4) << name;
      EXPECT_NEAR(wanted.std[c], measured.std[c], 1e-4) << name;
    }
  }
  if (seen == 0) GTEST_SKIP() << "no data set in $RONDO_DATA, the cache or a package";
}

TEST(OpenDataset, LimitReachesTheReader) {
  const fs::path fashion = "/usr/share/datasets/fashion-mnist";
  if (!fs::exists(fashion)) GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  EXPECT_EQ(
      open_dataset("fashion_mnist", Split::test, {.download = {.data_dir = fashion}, .limit = 7})
          ->size(),
      7);
}

}  // namespace
}  // namespace rondo::data
