// Containers: composition, names, indices, copies.

#include "nn/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/sequence_case.h"
#include "support/support.h"
#include "tensor/creation.h"

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

TEST(Sequential, BracesDrawTheWeightsFromLeftToRight) {
  manual_seed(1);
  nn::Linear first(2, 3), second(3, 2);
  manual_seed(1);
  nn::Sequential net{nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 2)};
  EXPECT_TRUE(equal(net.parameters()[0], first.weight));
  EXPECT_TRUE(equal(net.parameters()[2], second.weight));
  manual_seed(1);
  nn::ModuleList list{nn::Linear(2, 3), nn::Linear(3, 2)};
  EXPECT_TRUE(equal(list.parameters()[2], second.weight));
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

TEST(Sequential, MayHaveNamesOfItsOwn) {
  nn::Sequential net({{"fc", nn::Linear(3, 2)}, {"act", nn::ReLU()}});
  net.push_back("last", nn::Linear(2, 1));
  net.push_back(nn::Sigmoid());
  EXPECT_EQ(parameter_names(net), (std::vector<std::string>{"fc.weight[2, 3]", "fc.bias[2]",
                                                            "last.weight[1, 2]", "last.bias[1]"}));
  EXPECT_EQ(net.named_modules().back().first, "3");
  EXPECT_EQ(net(zeros({5, 3})).shape(), (Dims{5, 1}));
  EXPECT_ERROR(net.push_back("fc", nn::ReLU()), Error, "two elements are called \"fc\"");
  EXPECT_ERROR(net.push_back("a.b", nn::ReLU()), Error, "\"a.b\" is not a valid key");
}

/// A model with each kind of container.
struct OfContainers : nn::Module {
  nn::ModuleDict heads{{"class", nn::Linear(3, 2)}, {"box", nn::Linear(3, 4, {.bias = false})}};
  nn::ParameterList scales{Tensors{ones({2}), ones({4})}};
  nn::ParameterDict shifts{{"class", zeros({2})}, {"box", zeros({4})}};
  Tensor forward(const Tensor& x) override {
    return cat({heads["class"](x) * scales[0] + shifts["class"],
                heads["box"](x) * scales[1] + shifts["box"]},
               -1);
  }
  void visit(nn::Visitor& v) override {
    v.child("heads", heads);
    v.child("scales", scales);
    v.child("shifts", shifts);
  }
};

TEST(Containers, HavePyTorchsNamesAndAreTrainedCopiedAndSaved) {
  OfContainers model;
  EXPECT_EQ(parameter_names(model),
            (std::vector<std::string>{"heads.class.weight[2, 3]", "heads.class.bias[2]",
                                      "heads.box.weight[4, 3]", "scales.0[2]", "scales.1[4]",
                                      "shifts.class[2]", "shifts.box[4]"}));
  const Tensor x = randn({5, 3});
  OfContainers copy = nn::clone(model);
  model(x).sum().backward();
  for (const auto& [name, p] : model.named_parameters()) EXPECT_TRUE(p.grad().defined()) << name;
  EXPECT_FALSE(copy.scales[0].grad().defined());
  {
    const NoGradGuard no_grad;
    copy.scales[1].fill_(2);
    copy.shifts["box"].fill_(3);
    copy.heads["class"].as<nn::Linear>().bias.fill_(4);
  }
  EXPECT_EQ(model.scales[1].sum().item(), 4);
  EXPECT_FALSE(identical(model(x), copy(x)));
  model.load_state_dict(copy.state_dict());
  EXPECT_TRUE(identical(model(x), copy(x)));
  model.to(f64);
  EXPECT_EQ(model.shifts["class"].dtype(), f64);
}

TEST(ModuleDict, IsEditedByKey) {
  nn::ModuleDict dict;
  dict.insert("b", nn::Linear(2, 3));
  dict.insert("a", nn::ReLU());
  EXPECT_EQ(dict.keys(), (std::vector<std::string>{"b", "a"}));
  dict["b"] = nn::Linear(2, 5);
  dict.insert("a", nn::Tanh());  // replaces it, in its place
  EXPECT_EQ(dict.size(), 2);
  EXPECT_EQ(dict["b"](zeros({1, 2})).shape(), (Dims{1, 5}));
  dict.erase("b");
  EXPECT_FALSE(dict.contains("b"));
  EXPECT_EQ(dict.named_modules().size(), 2u);
  EXPECT_ERROR(dict["b"], Error, "no element \"b\" in a container of 1 modules");
  EXPECT_ERROR(dict.erase("c"), Error, "no element \"c\"");
  EXPECT_ERROR(dict.insert("", nn::ReLU()), Error, "must not be empty or contain a dot");
  EXPECT_ERROR(dict(zeros({1})), Error, "ModuleDict: has no forward");
}

TEST(ParameterContainers, AreEditedInPlace) {
  nn::ParameterList list;
  list.push_back(ones({2}));
  list.push_back(zeros({3}).requires_grad_(false));
  list[0] = full({2}, 5);
  EXPECT_EQ(list.parameters()[0].sum().item(), 10);
  EXPECT_TRUE(list[0].requires_grad());
  EXPECT_FALSE(list[1].requires_grad());  // it stays frozen
  std::int64_t elements = 0;
  for (const Tensor& p : list) elements += p.numel();
  EXPECT_EQ(elements, 5);
  EXPECT_ERROR(list[2], Error, "index 2 in a container of 2 parameters");
  EXPECT_ERROR(list(zeros({1})), Error, "ParameterList: has no forward");
  nn::ParameterDict dict({{"w", ones({2})}});
  dict.insert("w", ones({4}));
  EXPECT_EQ(dict.num_parameters(), 4);
  dict.erase("w");
  EXPECT_EQ(dict.size(), 0);
  EXPECT_ERROR(dict["w"], Error, "no element \"w\" in a container of 0 parameters");
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
  EXPECT_THROW(list[-3], Error);
  EXPECT_THROW(nn::ModuleList()[0], Error);
}

TEST(Containers, CountFromTheEndAndGrow) {
  nn::Sequential net(nn::Linear(2, 3), nn::ReLU());
  net.append(nn::Linear(3, 1));
  EXPECT_EQ(net.size(), 3);
  EXPECT_EQ(&net[-1], &net[2]);
  EXPECT_EQ(&net[-3], &net[0]);
  EXPECT_ERROR(net[-4], Error, "container: index -4 in a container of 3 modules");
  nn::ParameterList list;
  list.append(ones({2}));
  EXPECT_EQ(list[-1].numel(), 2);
  EXPECT_THAT(message_of([&] { net.get_submodule("x"); }), testing::Not(testing::HasSubstr(": ,")));
}

}  // namespace
}  // namespace rondo::test
