// StateDict: reading, replacing and removing entries by name.

#include "nn/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/linear.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using ::testing::ElementsAre;

TEST(StateDict, IsReadByNameAndInOrder) {
  nn::Linear fc(3, 2);
  nn::StateDict state = fc.state_dict();
  EXPECT_THAT(state.keys(), ElementsAre("weight", "bias"));
  EXPECT_EQ(state["weight"].shape(), Dims({2, 3}));
  EXPECT_EQ(state[0].tensor.storage(), std::as_const(state)["weight"].storage());
  EXPECT_TRUE(state.contains("bias"));
  EXPECT_FALSE(state.contains("scale"));

  state["bias"] = ones({2});
  state.insert_or_assign("weight", zeros({2, 3}));
  fc.load_state_dict(state);
  EXPECT_EQ(fc(zeros({1, 3})).to_vector(), (std::vector<float>{1, 1}));

  state.insert_or_assign("extra", ones({1}));
  EXPECT_EQ(state.pop("bias").to_vector(), (std::vector<float>{1, 1}));
  EXPECT_THAT(state.keys(), ElementsAre("weight", "extra"));
  const auto report = fc.load_state_dict(state, {.strict = false});
  EXPECT_THAT(report.missing_keys, ElementsAre("bias"));
  EXPECT_THAT(report.unexpected_keys, ElementsAre("extra"));
}

TEST(StateDict, AnUnknownNameIsAnErrorWithSimilarNames) {
  nn::StateDict state = {
      {"layer1.conv.weight", ones({1})}, {"layer1.conv.bias", ones({1})}, {"fc.weight", ones({1})}};
  EXPECT_ERROR(state["fc.wieght"], Error,
               "state dict: no tensor is called \"fc.wieght\"; similar names: fc.weight");
  EXPECT_ERROR(state["module.fc.weight"], Error, "similar names: fc.weight");
  EXPECT_ERROR(state["conv.bias"], Error, "similar names: layer1.conv.bias");
  EXPECT_ERROR(state.pop("running_mean"), Error, "no tensor is called \"running_mean\"");
}

}  // namespace
}  // namespace rondo::test
