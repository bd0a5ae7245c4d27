// Sequential and ModuleList: composition, names, indices.

#include "nn/containers.h"

#include <gtest/gtest.h>

#include "nn/activation.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "support/support.h"

namespace rondo::test {
namespace {

TEST(Sequential, IsTheCompositionOfItsModules) {
  nn::Linear first(6, 4), second(4, 3);
  nn::Sequential net(nn::Flatten(), first, nn::ReLU(), second);
  Tensor x = randn({5, 2, 3});
  EXPECT_TRUE(identical(net(x), second(relu(first(x.reshape({5, 6}))))));
  EXPECT_EQ(net.size(), 4);
  EXPECT_EQ(net.named_parameters()[0].name, "1.weight");
  EXPECT_EQ(net.named_parameters()[3].name, "3.bias");
}

TEST(Sequential, EmptyIsTheIdentity) {
  nn::Sequential net;
  Tensor x = randn({3});
  EXPECT_TRUE(net(x).is_same(x));
  EXPECT_TRUE(net.parameters().empty());
}

TEST(Sequential, GrowsAndIsEditedInPlace) {
  nn::Sequential net(nn::Linear(3, 3));
  net.push_back(nn::Tanh());
  net.push_back(nn::Sequential(nn::Linear(3, 2), nn::ReLU()));
  EXPECT_EQ(net(zeros({1, 3})).shape(), (Dims{1, 2}));
  net[2] = nn::Linear(3, 9);
  EXPECT_EQ(net(zeros({1, 3})).shape(), (Dims{1, 9}));
  EXPECT_EQ(net[0].as<nn::Linear>().in_features, 3);
}

TEST(Sequential, IsCopiedAsAWhole) {
  nn::Sequential net(nn::Linear(3, 2), nn::ReLU());
  nn::Sequential copy = net;
  EXPECT_EQ(copy.size(), 2);
  copy[0] = nn::Identity();
  EXPECT_EQ(net.parameters().size(), 2u) << "the copy's list is its own";
  nn::Sequential nested;
  nested.push_back(net);
  EXPECT_EQ(nested.named_parameters()[0].name, "0.0.weight");
}

TEST(ModuleList, HasNoForwardOfItsOwn) {
  nn::ModuleList list(nn::Linear(2, 2), nn::ReLU());
  EXPECT_THROW(list(zeros({1, 2})), Error);
  Tensor x = randn({4, 2});
  Tensor y = x;
  for (auto& module : list) y = module(y);
  EXPECT_TRUE(identical(y, nn::Sequential(list[0].as<nn::Linear>(), nn::ReLU())(x)));
}

TEST(ModuleList, HoldsASequentialAsOneElement) {
  nn::ModuleList list(nn::Sequential(nn::Linear(2, 3), nn::ReLU()));
  EXPECT_EQ(list.size(), 1);
  EXPECT_EQ(list.named_parameters()[0].name, "0.0.weight");
}

TEST(ModuleList, IndicesAreChecked) {
  nn::ModuleList list{nn::ReLU(), nn::ReLU()};
  EXPECT_NO_THROW(list[1]);
  EXPECT_THROW(list[2], Error);
  EXPECT_THROW(list[-1], Error);
  EXPECT_THROW(nn::ModuleList()[0], Error);
}

}  // namespace
}  // namespace rondo::test
