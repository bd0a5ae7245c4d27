// Each plane of a scaled data set equals the plane of the scaled picture, which image_ops_test
// compares with PIL.

#include "data/resized.h"

#include "data/image_ops.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::data {
namespace {

ImageDataset noise_images(std::int64_t n, std::int64_t channels) {
  Tensor images = Tensor::empty({n, channels, 7, 5}, {.dtype = u8});
  for (std::int64_t i = 0; i < images.numel(); ++i)
    images.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * i * 31 + i / 7);
  return {images, zeros({n}, {.dtype = i64}), {"all"}};
}

TEST(Resized, EqualsTheScaledPictures) {
  for (const std::int64_t channels : {1, 3, 4}) {
    const ImageDataset set = noise_images(5, channels);
    for (const auto& [height, width] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{7, 5}, {14, 3}, {3, 11}, {1, 1}}) {
      const auto scaled = resized(set, height, width);
      ASSERT_EQ(scaled->images().shape(), (Dims{5, channels, height, width}));
      EXPECT_EQ(scaled->class_names(), set.class_names());
      for (std::int64_t plane = 0; plane < 5 * channels; ++plane) {
        Tensor picture = Tensor::empty({7, 5, 3}, {.dtype = u8});
        const auto* from = set.images().data_ptr<std::uint8_t>() + plane * 35;
        for (std::int64_t i = 0; i < 105; ++i) picture.data_ptr<std::uint8_t>()[i] = from[i / 3];
        const Tensor wanted = resize(picture, height, width);
        for (std::int64_t i = 0; i < height * width; ++i)
          ASSERT_EQ(scaled->images().data_ptr<std::uint8_t>()[plane * height * width + i],
                    wanted.data_ptr<std::uint8_t>()[3 * i])
              << plane << " " << i;
      }
    }
  }
}

TEST(Resized, RefusesImpossibleSizes) {
  const ImageDataset set = noise_images(2, 3);
  EXPECT_THROW(resized(set, 0, 4), Error);
  EXPECT_THROW(resized(set, 4, -1), Error);
  EXPECT_EQ(resized(noise_images(0, 3), 4, 4)->size(), 0);
}

}  // namespace
}  // namespace rondo::data
