// The errors of layers: bad arguments of constructors, and inputs of a wrong shape.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "nn/conv3d.h"
#include "nn/conv_transpose1d.h"
#include "nn/conv_transpose2d.h"
#include "nn/conv_transpose3d.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/instance_norm.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/pooling.h"
#include "support/errors.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using namespace nn;

TEST(LayerErrors, NameTheArguments) {
  EXPECT_THROW(Conv2d(3, 4, 3, {.groups = 2}), ShapeError);
  EXPECT_THROW(Conv2d(4, 4, 0), ShapeError);
  EXPECT_THROW(Conv2d(4, 4, 3, {.stride = 0}), ShapeError);
  EXPECT_THROW(Conv2d(0, 4, 3), ShapeError);
  EXPECT_THROW(Conv1d(3, 4, 3, {.groups = 2}), ShapeError);
  EXPECT_THROW(Conv1d(3, 4, 0), ShapeError);
  EXPECT_THROW(Conv1d(3, 4, 3, {.dilation = 0}), ShapeError);
  EXPECT_ERROR(Conv1d(3, 4, 3)(zeros({2, 4, 8})), ShapeError,
               "Conv1d: input [2, 4, 8] is neither (N, 3, L) nor (3, L)");
  EXPECT_ERROR(Conv3d(4, 4, {1, 0, 2}), ShapeError, "Conv3d: kernel size [1, 0, 2]");
  EXPECT_ERROR(Conv3d(3, 4, 2)(zeros({3, 5, 5})), ShapeError,
               "Conv3d: input [3, 5, 5] is neither (N, 3, D, H, W) nor (3, D, H, W)");
  EXPECT_ERROR(Conv3d(3, 4, 2)(zeros({1, 3, 1, 5, 5})), ShapeError,
               "conv3d: the kernel of weight [4, 3, 2, 2, 2] is larger than the padded input");
  EXPECT_ERROR(ConvTranspose3d(4, 4, 3, {.stride = 2, .output_padding = {0, 1, 2}}), ShapeError,
               "ConvTranspose3d: output padding [0, 1, 2] must be smaller than stride or dilation");
  EXPECT_ERROR(ConvTranspose1d(4, 4, 3, {.padding = 3})(zeros({4, 2})), ShapeError,
               "give an empty output [-2]");
  EXPECT_THROW(Conv1d(3, 4, 3)(zeros({2, 3, 2})), ShapeError);  // shorter than the kernel
  EXPECT_THROW(ConvTranspose2d(4, 3, 3, {.groups = 2}), ShapeError);
  EXPECT_THROW(ConvTranspose2d(4, 4, {3, 0}), ShapeError);
  EXPECT_THROW(ConvTranspose2d(4, 4, 3, {.padding = -1}), ShapeError);
  EXPECT_ERROR(ConvTranspose2d(4, 4, 3, {.stride = 2, .output_padding = 2}), ShapeError,
               "output padding [2, 2] must be smaller than stride or dilation");
  EXPECT_ERROR(ConvTranspose2d(4, 4, 3)(zeros({2, 3, 5, 5})), ShapeError,
               "ConvTranspose2d: input [2, 3, 5, 5] is neither (N, 4, H, W) nor (4, H, W)");
  EXPECT_ERROR(ConvTranspose2d(4, 4, 3, {.padding = 2})(zeros({2, 4, 1, 5})), ShapeError,
               "give an empty output");
  EXPECT_THROW(Linear(-1, 3), ShapeError);
  EXPECT_THROW(GroupNorm(4, 6), ShapeError);
  EXPECT_THROW(LayerNorm(Dims{}), ShapeError);
  EXPECT_THROW(Embedding(0, 3), ShapeError);
  EXPECT_THROW(Embedding(4, 3, {.padding_idx = 4}), ShapeError);
  EXPECT_THROW(Dropout(1.5), Error);
  EXPECT_THROW(Dropout(-0.1), Error);
  EXPECT_ERROR(Upsample({}), Error, "Upsample: expected either size or scale_factor");
  EXPECT_THROW(Upsample({.scale_factor = {0}})(zeros({1, 1, 2, 2})), Error);
  EXPECT_THROW(BatchNorm2d(0), ShapeError);
  EXPECT_THROW(BatchNorm2d(3)(zeros({2, 3})), ShapeError);
  EXPECT_THROW(BatchNorm2d(3)(zeros({2, 4, 2, 2})), ShapeError);
  EXPECT_THROW(BatchNorm1d(3)(zeros({2, 3, 2, 2})), ShapeError);
  EXPECT_THROW(GroupNorm(2, 4)(zeros({2, 6, 2})), ShapeError);
  EXPECT_THROW(Linear(4, 3)(zeros({2, 5})), ShapeError);
  EXPECT_THROW(Conv2d(4, 3, 3)(zeros({2, 3, 8, 8})), ShapeError);
  EXPECT_THROW(Embedding(4, 3)(tensor<std::int64_t>({4})), ShapeError);
  try {
    BatchNorm2d bn(3);
    bn(zeros({2, 4, 5, 6}));
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "BatchNorm2d: input [2, 4, 5, 6] is not (N, 3, H, W)");
  }
}

TEST(LayerErrors, SayWhatIsExpected) {
  const auto said = [](const auto& f) { return message_of(f); };
  for (const auto& [expected, message] : std::vector<std::pair<std::string, std::string>>{
           {"Conv2d: 0 to 8 channels in 1 groups, but all three must be positive",
            said([] { Conv2d(0, 8, 3); })},
           {"Conv2d: 3 to 8 channels cannot be divided into 2 groups: groups must divide both",
            said([] { Conv2d(3, 8, 3, {.groups = 2}); })},
           {"Conv2d: kernel size [0, 0], but it must be at least 1", said([] { Conv2d(3, 8, 0); })},
           {"Conv2d: stride [0, 0], dilation [1, 1], padding [0, 0]; stride and dilation must be",
            said([] { Conv2d(3, 8, 3, {.stride = 0}); })},
           {"Linear: -1 to 3 features, but neither may be negative", said([] { Linear(-1, 3); })},
           {"0 features, but there must be at least 1", said([] { BatchNorm2d(0); })},
           {"0 features, but there must be at least 1", said([] { InstanceNorm2d(0); })},
           {"GroupNorm: 6 channels cannot be split into 4 groups: both must be positive, and the "
            "second divide the first",
            said([] { GroupNorm(4, 6); })},
           {"Embedding: a table of 0 x 3, but both must be positive",
            said([] { Embedding(0, 3); })},
           {"Embedding: padding_idx 4 is not a row of the table (valid: -4 to 3)",
            said([] { Embedding(4, 3, {.padding_idx = 4}); })},
           {"LayerNorm: the normalized shape [-3] has a negative size",
            said([] { LayerNorm(-3); })},
           {"Dropout: the probability is 1.5, but must be in [0, 1]", said([] { Dropout(1.5); })},
           {"PReLU: 0 parameters, but there must be at least 1", said([] { PReLU(0); })}})
    EXPECT_NE(message.find(expected), std::string::npos) << message;
}

}  // namespace
}  // namespace rondo::test
