// Compares the fused pass with the same steps executed one after another, pixel by pixel.

#include "data/transforms.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>

#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::message_of;
using ::testing::HasSubstr;

constexpr std::uint64_t seed = 11, epoch = 3;

Tensor random_images(const Dims& sizes) {
  Tensor images = Tensor::empty(sizes, {.dtype = u8});
  auto* bytes = images.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(Philox{1, 2}.word(static_cast<std::uint64_t>(i)));
  }
  return images;
}

Indices count_up(std::int64_t n, std::int64_t first = 0) {
  Indices indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

/// What the list of steps means for pixel (c, y, x) of one image.
struct Reference {
  RandomCrop crop;  // without a crop step: the whole image, without padding
  bool to_float = false;
  std::vector<float> mean = {}, std = {};

  float pixel(const Tensor& images, std::int64_t n, const Augmentation& drawn, std::int64_t c,
              std::int64_t y, std::int64_t x) const {
    for (const auto& box : {drawn.erased, drawn.cut}) {
      if (y >= box.top && y < box.bottom && x >= box.left && x < box.right) return 0;
    }
    const std::int64_t height = images.size(2), width = images.size(3);
    const std::int64_t in_window = drawn.flip ? crop.width - 1 - x : x;
    const std::int64_t sy = y + drawn.top - crop.padding,
                       sx = in_window + drawn.left - crop.padding;
    float value = crop.fill;
    if (sy >= 0 && sy < height && sx >= 0 && sx < width) {
      value =
          images.data_ptr<std::uint8_t>()[((n * images.size(1) + c) * height + sy) * width + sx];
    }
    if (to_float) value = value / 255.0F;
    if (!mean.empty()) {
      value = (value - mean[static_cast<std::size_t>(c)]) / std[static_cast<std::size_t>(c)];
    }
    return value;
  }
};

/// Compares apply() with the reference at every pixel, in both layouts.
void check(const std::vector<ImageStep>& steps, const Reference& reference, const Dims& sizes) {
  const Tensor images = random_images(sizes);
  const Indices indices = count_up(sizes[0], 1000);
  for (const auto format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const ImageTransform transform(steps, {.seed = seed, .format = format});
    const Tensor out = transform.apply(images, indices, {epoch});
    ASSERT_EQ(out.shape(), (Dims{sizes[0], sizes[1], reference.crop.height, reference.crop.width}));
    ASSERT_TRUE(out.is_contiguous(format));
    ASSERT_EQ(out.dtype(), reference.to_float ? f32 : u8);
    const auto values = out.to_vector<float>();
    std::size_t i = 0;
    for (std::int64_t n = 0; n < sizes[0]; ++n) {
      const auto drawn =
          transform.draw(epoch, indices[static_cast<std::size_t>(n)], sizes[2], sizes[3]);
      for (std::int64_t c = 0; c < sizes[1]; ++c) {
        for (std::int64_t y = 0; y < reference.crop.height; ++y) {
          for (std::int64_t x = 0; x < reference.crop.width; ++x, ++i) {
            ASSERT_EQ(values[i], reference.pixel(images, n, drawn, c, y, x))
                << "image " << n << ", pixel (" << c << ", " << y << ", " << x << ")";
          }
        }
      }
    }
  }
}

TEST(ImageTransform, CifarsAugmentation) {
  const std::vector<float> mean{0.4914F, 0.4822F, 0.4465F}, std{0.2470F, 0.2435F, 0.2616F};
  check({RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToFloat{}, Normalize{mean, std},
         RandomErasing{}, Cutout{8}},
        {.crop = {32, 32, 4}, .to_float = true, .mean = mean, .std = std}, {64, 3, 32, 32});
}

TEST(ImageTransform, AnyNumberOfChannelsAndOddSizes) {
  for (const std::int64_t channels : {1, 2, 3, 4, 5}) {
    check({RandomCrop{5, 3, 2, 9}, RandomHorizontalFlip{}, ToFloat{}, Cutout{3}},
          {.crop = {5, 3, 2, 9}, .to_float = true}, {40, channels, 7, 5});
  }
}

TEST(ImageTransform, PaddingWiderThanTheImage) {  // some windows are entirely outside the image
  check({RandomCrop{3, 3, 6, 200}, RandomHorizontalFlip{}, ToFloat{}},
        {.crop = {3, 3, 6, 200}, .to_float = true}, {60, 3, 2, 1});
  check({RandomCrop{14, 13, 6}, ToFloat{}}, {.crop = {14, 13, 6}, .to_float = true}, {2, 3, 2, 1});
}

TEST(ImageTransform, CropsOutOfLargerImages) {
  check({RandomCrop{8, 6}, RandomHorizontalFlip{}, ToFloat{}}, {.crop = {8, 6}, .to_float = true},
        {50, 3, 11, 13});
}

TEST(ImageTransform, WithoutToFloatBytesStayBytes) {
  check({RandomCrop{8, 8, 2, 7}, RandomHorizontalFlip{}, RandomErasing{1}}, {.crop = {8, 8, 2, 7}},
        {30, 3, 8, 8});
}

TEST(ImageTransform, ToFloatAlone) {
  check({ToFloat{}}, {.crop = {4, 4}, .to_float = true}, {2, 3, 4, 4});
}

TEST(ImageTransform, ErasingInOneChannelImages) {
  check({ToFloat{}, Normalize{{0.5F}, {0.25F}}, RandomErasing{1}},
        {.crop = {28, 28}, .to_float = true, .mean = {0.5F}, .std = {0.25F}}, {30, 1, 28, 28});
}

TEST(ImageTransform, NormalizesToPyTorchsFloats) {
  const Tensor wanted = test::Golden("samplers.txt")["normalized"];
  Tensor images = Tensor::empty({1, 3, 1, 256}, {.dtype = u8});
  for (std::int64_t i = 0; i < 768; ++i) {
    images.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(i % 256);
  }
  const ImageTransform transform(
      {ToFloat{}, Normalize{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}});
  const Tensor out = transform.apply(images, count_up(1));
  EXPECT_EQ(out.to_vector<float>(), wanted.to_vector<float>());
}

TEST(ImageTransform, EmptyBatch) {
  const ImageTransform transform({RandomCrop{4, 4, 1}, ToFloat{}});
  EXPECT_EQ(transform.apply(Tensor::empty({0, 3, 4, 4}, {.dtype = u8}), {}).shape(),
            (Dims{0, 3, 4, 4}));
}

TEST(ImageTransform, DependsOnTheSampleAndNotOnItsCompany) {
  const Tensor images = random_images({24, 3, 8, 8});
  const ImageTransform transform(
      {RandomCrop{8, 8, 2}, RandomHorizontalFlip{}, ToFloat{}, RandomErasing{}, Cutout{3}},
      {.seed = seed});
  const Indices indices = count_up(24);
  const auto whole = transform.apply(images, indices, {epoch}).to_vector<float>();
  constexpr std::size_t image = 3 * 8 * 8;
  for (const std::int64_t n : {0, 7, 23}) {
    const Tensor one = images.as_view({1, 3, 8, 8}, {192, 64, 8, 1}, n * 192);
    const Indices index{n};
    const auto alone = transform.apply(one, index, {epoch}).to_vector<float>();
    EXPECT_TRUE(std::equal(
        alone.begin(), alone.end(),
        whole.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(n) * image)));
  }
}

TEST(ImageTransform, SeedEpochAndIndexAllMatter) {
  const std::vector<ImageStep> steps{RandomCrop{32, 32, 16}, RandomHorizontalFlip{}, Cutout{8}};
  const ImageTransform a(steps, {.seed = 1}), b(steps, {.seed = 2});
  EXPECT_EQ(a.draw(1, 5, 32, 32), a.draw(1, 5, 32, 32));
  int seeds = 0, epochs = 0, samples = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    seeds += a.draw(1, i, 32, 32) == b.draw(1, i, 32, 32);
    epochs += a.draw(1, i, 32, 32) == a.draw(2, i, 32, 32);
    samples += a.draw(1, i, 32, 32) == a.draw(1, i + 1, 32, 32);
  }
  // Two draws are equal with probability 1 / (33² · 2 · 32²), so not in 300 draws.
  EXPECT_EQ(seeds + epochs + samples, 0);
}

TEST(ImageTransform, OffsetsAndFlipsAreUniform) {
  const ImageTransform transform({RandomCrop{32, 32, 4}, RandomHorizontalFlip{0.25}}, {.seed = 5});
  std::map<std::int64_t, int> tops, lefts;
  int flips = 0, both = 0;
  constexpr int n = 81000;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto drawn = transform.draw(0, i, 32, 32);
    ++tops[drawn.top];
    ++lefts[drawn.left];
    flips += drawn.flip;
    both += drawn.top == drawn.left;
  }
  // Binomial counts: at most five standard deviations from the mean.
  const double sigma = std::sqrt(n / 9.0 * 8 / 9);
  for (const auto* counts : {&tops, &lefts}) {
    ASSERT_EQ(counts->size(), 9U);
    EXPECT_EQ(counts->begin()->first, 0);
    EXPECT_EQ(counts->rbegin()->first, 8);
    for (const auto& [offset, count] : *counts) EXPECT_NEAR(count, n / 9.0, 5 * sigma) << offset;
  }
  EXPECT_NEAR(both, n / 9.0, 5 * sigma);  // top and left are independent
  EXPECT_NEAR(flips, n * 0.25, 5 * std::sqrt(n * 0.25 * 0.75));
}

TEST(ImageTransform, CertainAndImpossible) {
  const ImageTransform always({RandomHorizontalFlip{1}, RandomErasing{1}});
  const ImageTransform never({RandomHorizontalFlip{0}, RandomErasing{0}});
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(always.draw(0, i, 32, 32).flip);
    EXPECT_FALSE(always.draw(0, i, 32, 32).erased.empty());
    EXPECT_FALSE(never.draw(0, i, 32, 32).flip);
    EXPECT_TRUE(never.draw(0, i, 32, 32).erased.empty());
  }
}

TEST(ImageTransform, ErasedBoxesKeepToTheirRanges) {
  const RandomErasing erasing{.probability = 0.5};
  const ImageTransform transform({erasing});
  int erased = 0;
  for (std::int64_t i = 0; i < 20000; ++i) {
    const auto box = transform.draw(0, i, 64, 48).erased;
    if (box.empty()) continue;
    ++erased;
    const auto h = static_cast<double>(box.bottom - box.top),
               w = static_cast<double>(box.right - box.left);
    EXPECT_GE(box.top, 0);
    EXPECT_GE(box.left, 0);
    EXPECT_LE(box.bottom, 64);
    EXPECT_LE(box.right, 48);
    // Sides are rounded to whole pixels, which changes each by at most a half.
    EXPECT_GE((h + 0.5) * (w + 0.5), 0.02 * 64 * 48);
    EXPECT_LE((h - 0.5) * (w - 0.5), 0.33 * 64 * 48);
    EXPECT_LE((h - 0.5) / (w + 0.5), 3.3);
    EXPECT_GE((h + 0.5) / (w - 0.5), 0.3);
  }
  EXPECT_NEAR(erased, 10000, 5 * 71);  // ten tries always find a box of these sizes
}

TEST(ImageTransform, CutoutIsCentredOnEveryPixelAlike) {
  const ImageTransform transform({Cutout{4}});
  std::map<std::int64_t, int> tops;
  constexpr int n = 16000;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto box = transform.draw(0, i, 16, 16).cut;
    EXPECT_LE(box.bottom, 16);
    EXPECT_LE(box.bottom - box.top, 4);
    ++tops[box.bottom];  // centre + 2, unless the border cuts it off
  }
  for (std::int64_t bottom = 2; bottom < 16; ++bottom)
    EXPECT_NEAR(tops[bottom], n / 16, 5 * 31) << bottom;
  EXPECT_NEAR(tops[16], n / 8, 5 * 42);  // centres 14 and 15
}

TEST(ImageTransform, RefusesImpossibleSteps) {
  auto make = [](ImageStep step) { return [=] { ImageTransform({ToFloat{}, step}); }; };
  auto make_crop = [](ImageStep step) { return [=] { ImageTransform({step}); }; };
  EXPECT_THROW(make_crop(RandomCrop{0, 3})(), Error);
  EXPECT_THROW(make_crop(RandomCrop{3, 3, -1})(), Error);
  EXPECT_THROW(make_crop(RandomHorizontalFlip{1.5})(), Error);
  EXPECT_THROW(make_crop(RandomHorizontalFlip{std::nan("")})(), Error);
  EXPECT_THROW(make(Normalize{{0.5F}, {}})(), Error);
  EXPECT_THROW(make(Normalize{{}, {}})(), Error);
  EXPECT_THROW(make(Normalize{{0.5F}, {0.F}})(), Error);
  EXPECT_THROW(make(Normalize{{std::nanf("")}, {1.F}})(), Error);
  EXPECT_THROW(make(RandomErasing{-0.1})(), Error);
  EXPECT_THROW(make(RandomErasing{0.5, {0.4, 0.3}})(), Error);
  EXPECT_THROW(make(RandomErasing{0.5, {0.1, 0.3}, {0, 1}})(), Error);
  EXPECT_THROW(make(Cutout{0})(), Error);
  EXPECT_THAT(message_of<Error>([] {
                ImageTransform({ToFloat{}, RandomCrop{}});
              }),
              HasSubstr("RandomCrop after ToFloat"));
  EXPECT_THAT(message_of<Error>([] {
                ImageTransform({ToFloat{}, ToFloat{}});
              }),
              HasSubstr("ToFloat after ToFloat"));
  EXPECT_THAT(message_of<Error>([] {
                ImageTransform({Normalize{{0.5F}, {1.F}}});
              }),
              HasSubstr("Normalize needs ToFloat"));
}

TEST(ImageTransform, RefusesOtherBatches) {
  const ImageTransform plain, crop({RandomCrop{9, 4, 2}}),
      normalize({ToFloat{}, Normalize{{0.5F}, {1.F}}});
  const Tensor images = random_images({2, 3, 4, 4});
  const Indices two{0, 1}, three{0, 1, 2};
  EXPECT_THROW(plain.apply(zeros({2, 3, 4, 4}), two), DTypeError);
  EXPECT_THROW(plain.apply(random_images({2, 4}), two), ShapeError);
  EXPECT_THROW(plain.apply(images, three), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([&] { crop.apply(images, two); }),
              HasSubstr("9 x 4 out of 8 x 8"));
  EXPECT_THAT(message_of<ShapeError>([&] { normalize.apply(images, two); }),
              HasSubstr("Normalize has 1 channels"));
}

}  // namespace
}  // namespace rondo::data
