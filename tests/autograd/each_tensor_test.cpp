// each_tensor: tensors inside values of any type, with their names; and checkpoint of functions of
// any signature.

#include "autograd/each_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "autograd/checkpoint.h"
#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using ::testing::ElementsAre;

struct PointWithMass {
  Tensor place;
  std::optional<Tensor> mass;
  std::string label;
  template <class V>
  void visit(V&& v) {
    v("place", place);
    v("mass", mass);
    v("label", label);
  }
};
enum class Kind { plain };
struct PlainNumbers {
  int rows;
  double scale;
};

TEST(EachTensor, FindsTensorsByName) {
  const Tensor one = ones({1});
  const auto value = std::tuple(
      one, 3, Kind::plain, PlainNumbers{1, 2}, Dims{2, 3}, std::string("text"),
      Tensors{one, Tensor()}, PointWithMass{one, one, "a"}, PointWithMass{one, {}, "b"},
      std::map<std::string, Tensor>{{"x", one}, {"y", one}}, std::pair(one, std::vector<int>{1}));
  std::vector<std::string> names;
  each_tensor(value, [&](const std::string& name, const Tensor& x) {
    names.push_back(x.defined() ? name : name + " undefined");
  });
  EXPECT_THAT(names, ElementsAre("0", "6.0", "6.1 undefined", "7.place", "7.mass", "8.place", "9.x",
                                 "9.y", "10.0"));
  EXPECT_EQ(tensors_of(value).size(), names.size());
}

TEST(EachTensor, FindsTensorsBehindReferences) {
  Tensor one = ones({1}), two = ones({2});
  Tensors list{one, two};
  const auto value = std::tuple(std::ref(one), std::span(list), std::vector{std::ref(two)},
                                std::span<const int>());
  EXPECT_EQ(tensors_of(value).size(), 4);
}

struct WithReference {
  const Tensor& x;
};
struct WithShownReference {
  Tensor& x;
  template <class V>
  void visit(V&& v) {
    v("x", x);
  }
};
static_assert(std::is_trivially_copyable_v<WithReference> && !detail::IsPlain<WithReference>);

TEST(EachTensor, FindsShownReferences) {
  Tensor one = ones({1});
  const WithShownReference value{one};
  EXPECT_EQ(tensors_of(value).size(), 1);
}

TEST(EachTensor, ReplacesTensors) {
  PointWithMass point{zeros({1}), zeros({1}), ""};
  put_tensors(point, {ones({1}), ones({2})});
  EXPECT_EQ(point.place.numel() + point.mass->numel(), 3);
}

TEST(Checkpoint, OfAnySignature) {
  const Tensor x = tensor<double>({0.5, 2}).requires_grad_(), y = tensor<double>({3, -1});
  const auto f = [](const PointWithMass& point, double scale, const Tensor& y) {
    const Tensor z = exp(point.place * scale) * y;
    return PointWithMass{z, point.mass ? std::optional(tanh(z)) : std::nullopt, point.label};
  };
  const auto loss = [](const PointWithMass& found) {
    return (found.place.sum() + found.mass->sum()) * static_cast<double>(found.label.size());
  };
  const PointWithMass in{x, y, "ab"};
  const Tensor expected = grad({loss(f(in, 0.5, y))}, {x})[0];
  const PointWithMass found = checkpoint(f, in, 0.5, y);
  EXPECT_EQ(found.label, "ab");
  EXPECT_TRUE(identical(grad({loss(found)}, {x})[0], expected));
}

}  // namespace
}  // namespace rondo::test
