#include "data/dataset.h"

#include <gmock/gmock.h>

#include "support/errors.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::message_of;
using ::testing::HasSubstr;

TEST(TensorDataset, GathersRowsInTheOrderAsked) {
  const TensorDataset set(tensor<float>({0, 1, 10, 11, 20, 21}, {3, 2}),
                          tensor<std::int64_t>({7, 8, 9}));
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.num_classes(), 0);
  const std::vector<std::int64_t> indices{2, 0, 2};
  const Batch batch = set.get_batch(indices);
  EXPECT_EQ(batch.size(), 3);
  EXPECT_TRUE(test::identical(batch.input, tensor<float>({20, 21, 0, 1, 20, 21}, {3, 2})));
  EXPECT_TRUE(test::identical(batch.target, tensor<std::int64_t>({9, 7, 9})));
}

TEST(TensorDataset, NoIndicesMakeAnEmptyBatch) {
  const TensorDataset set(tensor<float>({1, 2, 3}), tensor<std::int64_t>({7, 8, 9}));
  EXPECT_EQ(set.get_batch({}).input.shape(), (Dims{0}));
}

TEST(TensorDataset, RowsMayBeEmpty) {
  const TensorDataset set(Tensor::empty({3, 0}), tensor<std::int64_t>({7, 8, 9}));
  const std::vector<std::int64_t> indices{1};
  EXPECT_EQ(set.get_batch(indices).input.shape(), (Dims{1, 0}));
}

TEST(TensorDataset, AnIndexOutsideIsNamed) {
  const TensorDataset set(tensor<float>({1, 2, 3}), tensor<std::int64_t>({7, 8, 9}));
  for (const std::int64_t wrong : {-1, 3}) {
    const std::vector<std::int64_t> indices{0, wrong};
    EXPECT_THAT(message_of<ShapeError>([&] { set.get_batch(indices); }),
                HasSubstr(concat("sample ", wrong, " ")));
  }
}

TEST(TensorDataset, RefusesTensorsThatDoNotFit) {
  const Tensor three = tensor<float>({1, 2, 3}), two = tensor<float>({1, 2});
  EXPECT_THROW(TensorDataset(three, two), ShapeError);
  EXPECT_THROW(TensorDataset(scalar(1.0), scalar(1.0)), ShapeError);
  const Tensor transposed = tensor<float>({1, 2, 3, 4}, {2, 2}).as_view({2, 2}, {1, 2}, 0);
  EXPECT_THROW(TensorDataset(transposed, two), ShapeError);
}

TEST(ImageDataset, KnowsItsShapeAndNames) {
  const ImageDataset set(zeros({2, 3, 4, 5}, {.dtype = u8}), tensor<std::int64_t>({0, 1}),
                         {"a", "b"});
  EXPECT_EQ(set.channels(), 3);
  EXPECT_EQ(set.height(), 4);
  EXPECT_EQ(set.width(), 5);
  EXPECT_EQ(set.num_classes(), 2);
  EXPECT_EQ(set.class_names()[1], "b");
}

TEST(ImageDataset, RefusesWhatIsNoImagesOrLabels) {
  const Tensor images = zeros({2, 1, 2, 2}, {.dtype = u8}), labels = tensor<std::int64_t>({0, 1});
  const std::vector<std::string> names{"a", "b"};
  EXPECT_THROW(ImageDataset(zeros({2, 1, 2, 2}), labels, names), DTypeError);
  EXPECT_THROW(ImageDataset(images, tensor<float>({0, 1}), names), DTypeError);
  EXPECT_THROW(ImageDataset(zeros({2, 4}, {.dtype = u8}), labels, names), ShapeError);
  EXPECT_THAT(message_of<Error>([&] {
                ImageDataset(images, tensor<std::int64_t>({0, 2}), names);
              }),
              HasSubstr("sample 1 has label 2"));
  EXPECT_THROW(ImageDataset(images, tensor<std::int64_t>({-1, 0}), names), Error);
}

}  // namespace
}  // namespace rondo::data
