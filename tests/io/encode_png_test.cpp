// libpng must read back the images that rondo writes, pixel by pixel.

#include "io/encode_png.h"

#include "data/image.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::io {
namespace {

Tensor decoded(const std::string& png) {
  return data::decode_image(std::as_bytes(std::span(png)), "memory");
}

TEST(EncodePng, LibpngReadsWhatWasWritten) {
  if (!data::has_image_decoders()) GTEST_SKIP() << "built without libjpeg and libpng";
  Generator generator(3);
  for (const Dims& shape : {Dims{3, 5, 7}, Dims{1, 28, 28}, Dims{3, 1, 1}, Dims{3, 300, 2}}) {
    const Tensor image = randint(0, 256, shape, {.dtype = u8}, generator);
    const Tensor back = decoded(encode_png(image));  // (H, W, 3)
    ASSERT_EQ(back.shape(), (Dims{shape[1], shape[2], 3}));
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x)
        for (std::int64_t c = 0; c < 3; ++c)
          ASSERT_EQ(back[y][x][c].item<int>(), image[shape[0] == 1 ? 0 : c][y][x].item<int>());
  }
}

TEST(EncodePng, FlatPicturesAreSmall) {
  EXPECT_LT(encode_png(zeros({3, 100, 100}, {.dtype = u8})).size(), 300U);
  const test::TemporaryFolder folder;
  write_png(zeros({3, 4, 4}, {.dtype = u8}), folder / "x.png");
  EXPECT_EQ(test::read_file(folder / "x.png"), encode_png(zeros({3, 4, 4}, {.dtype = u8})));
}

TEST(EncodePng, OnlyPicturesOfBytesAreWritten) {
  EXPECT_ERROR(encode_png(zeros({3, 4, 4})), DTypeError, "the image is f32");
  EXPECT_ERROR(write_png(zeros({3, 4, 4}, {.dtype = u8}), "/nowhere/x.png"), IoError,
               "/nowhere/x.png");
  EXPECT_ERROR(encode_png(zeros({2, 4, 4}, {.dtype = u8})), ShapeError, "[2, 4, 4]");
  EXPECT_ERROR(encode_png(zeros({4, 4}, {.dtype = u8})), ShapeError, "(1, H, W) or (3, H, W)");
  EXPECT_ERROR(encode_png(zeros({3, 0, 4}, {.dtype = u8})), ShapeError, "[3, 0, 4]");
  EXPECT_ERROR(encode_png(zeros({3, 4, 5}, {.dtype = u8}).transpose(1, 2)), ShapeError,
               "is not contiguous");
}

}  // namespace
}  // namespace rondo::io
