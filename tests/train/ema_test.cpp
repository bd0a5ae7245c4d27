// Ema against its formula, and what it does to the model.

#include "train/ema.h"

#include "nn/linear.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

/// A layer with two names, two parameters without elements, and a buffer.
struct Model : nn::Module {
  nn::Linear layer{1, 1};
  Tensor nothing = zeros({0}).requires_grad_(), nothing_else = zeros({0, 3}).requires_grad_();
  Tensor count = full({1}, 7);
  Tensor forward(const Tensor& x) override { return layer(x); }
  void visit(nn::Visitor& v) override {
    v.child("first", layer);
    v.child("again", layer);
    v.parameter("nothing", nothing);
    v.parameter("nothing_else", nothing_else);
    v.buffer("count", count);
  }
};

float number(const Tensor& x) { return x.to_vector<float>().at(0); }

float average_of(const std::string& name, const train::Ema& ema) {
  for (const auto& [key, average] : ema.averages())
    if (key == name) return number(average);
  throw Error("no average of " + name);
}

TEST(Ema, FollowsTheFormula) {
  Model model;
  train::Ema ema(model, 0.75);
  const NoGradGuard no_grad;
  model.layer.weight.fill_(8);
  ema.update(1);
  EXPECT_EQ(average_of("first.weight", ema), 8);
  model.layer.weight.fill_(4);
  ema.update(2);
  EXPECT_EQ(average_of("first.weight", ema), 7);  // 0.75 · 8 + 0.25 · 4
  {
    const train::Ema::Applied applied(ema);
    EXPECT_EQ(number(model.layer.weight), 7);
  }
  EXPECT_EQ(number(model.layer.weight), 4);
}

// Tensors without elements share an address. Their averages must not be mixed up with each other.
TEST(Ema, StateDictHasTheShapesOfTheModels) {
  Model model;
  train::Ema ema(model, 0.5);
  const NoGradGuard no_grad;
  model.layer.weight.fill_(2);
  ema.update(1);
  model.layer.weight.fill_(4);
  ema.update(2);
  const nn::StateDict own = model.state_dict(), averaged = ema.state_dict();
  ASSERT_EQ(own.size(), averaged.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(own[i].name, averaged[i].name);
    EXPECT_EQ(own[i].tensor.shape(), averaged[i].tensor.shape()) << own[i].name;
    if (own[i].tensor.numel() > 0 && !own[i].name.ends_with("bias"))
      EXPECT_EQ(number(averaged[i].tensor), own[i].name == "count" ? 7 : 3) << own[i].name;
  }
}

TEST(Ema, RefusesADecayOutsideOfZeroToOne) {
  Model model;
  EXPECT_ERROR(train::Ema(model, 1.5), Error, "decay is 1.5, but must be in [0, 1]");
}

}  // namespace
}  // namespace rondo
