#include "nn/select.h"

#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "nn/models/cifar_resnet.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::nn {
namespace {

using test::message_of;

TEST(Select, FrozenParametersGetNoGradientAndStay) {
  CifarResNet net({.depth = 8});
  const std::int64_t all = static_cast<std::int64_t>(net.named_parameters().size());
  EXPECT_EQ(freeze(net, "layer[12].*"), 12);
  EXPECT_EQ(freeze(net, "*"), all);
  EXPECT_EQ(unfreeze(net, "fc.*"), 2);
  EXPECT_EQ(parameters_like(net, "*").size(), 2);
  net(randn({2, 3, 8, 8})).sum().backward();
  for (const auto& [name, p] : net.named_parameters()) {
    EXPECT_EQ(p.grad().defined(), name.starts_with("fc.")) << name;
  }
}

TEST(Select, GroupsHaveRatesOfTheirOwn) {
  CifarResNet net({.depth = 8});
  freeze(net, "conv1.*");
  optim::SGD sgd({{parameters_like(net, "fc.*"), {.lr = 0.5}},
                  {parameters_unlike(net, "fc.*"), {.lr = 0.25}}});
  EXPECT_EQ(sgd.params(0).size(), 2);
  EXPECT_EQ(sgd.params(1).size(), net.named_parameters().size() - 3);
  for (const Tensor& p : sgd.parameters()) p.set_grad(ones_like(p));
  const Tensor head = net.fc.bias.clone(), first = net.bn1.weight.clone();
  sgd.step();
  EXPECT_TRUE(test::identical(net.fc.bias.detach(), (head - 0.5).detach()));
  EXPECT_TRUE(test::identical(net.bn1.weight.detach(), (first - 0.25).detach()));
}

TEST(Select, APatternThatMatchesNothingIsAnError) {
  CifarResNet net({.depth = 8});
  EXPECT_EQ(
      message_of<Error>([&] { freeze(net, "layer4.*"); }),
      "freeze: no parameter's name matches \"layer4.*\"; the names are conv1.weight, bn1.weight, "
      "bn1.bias, …");
  EXPECT_EQ(message_of<Error>([&] { parameters_unlike(net, "*"); }),
            "parameters_unlike: every parameter's name matches \"*\", or the parameter is frozen");
  freeze(net, "fc.*");
  EXPECT_THROW(parameters_like(net, "fc.*"), Error);
}

}  // namespace
}  // namespace rondo::nn
