// The names and shapes in the state dicts of torchvision's full models (tests/golden/make_zoo.py).

#include <gtest/gtest.h>

#include "nn/models/models.h"
#include "support/golden.h"
#include "support/keys_hash.h"

namespace rondo::test {
namespace {

TEST(ZooSlow, FullModelsHaveTorchvisionsKeys) {
  const Golden golden("zoo.txt");
  for (const char* name : {"mobilenet_v2", "efficientnet_b0", "densenet121", "convnext_tiny",
                           "vit_b_16", "vgg11", "vgg16_bn"}) {
    nn::AnyModule model = nn::make_model(name, {.num_classes = 1000});
    EXPECT_EQ(model.num_parameters(),
              golden[concat("full.", name, ".parameters")].item<std::int64_t>());
    EXPECT_EQ(keys_hash(model), golden[concat("full.", name, ".keys")].item<std::int64_t>())
        << name;
  }
}

}  // namespace
}  // namespace rondo::test
