#include "nn/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "nn/summary.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/sequence_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using nn::GRU;
using nn::LSTM;
using nn::RecurrentOptions;

/// Compares output and last states with PyTorch in f64 and f32, from 4 to 3 features. `state` is
/// the shape of the initial states, if they are given.
void expect_recurrent(const std::string& name, const RecurrentOptions& options, const Dims& shape,
                      const Dims& state = {}, bool train = true) {
  std::vector<Dims> shapes = {shape};
  if (!state.empty()) shapes.push_back(state);
  for (DType dtype : {f64, f32}) {
    GRU gru(4, 3, options);
    gru.train(train);
    expect_sequence(
        "gru." + name, shapes, dtype,
        [&](const Tensors& x) {
          const auto [y, last] = gru(x[0], {.h = x.size() > 1 ? x[1] : Tensor()});
          return Tensors{y, last.h};
        },
        &gru);
  }
  if (!state.empty()) shapes.push_back(state);
  for (DType dtype : {f64, f32}) {
    LSTM lstm(4, 3, options);
    lstm.train(train);
    expect_sequence(
        "lstm." + name, shapes, dtype,
        [&](const Tensors& x) {
          const bool given = x.size() > 1;
          const auto [y, last] =
              lstm(x[0], {.h = given ? x[1] : Tensor(), .c = given ? x[2] : Tensor()});
          return Tensors{y, last.h, last.c};
        },
        &lstm);
  }
}

TEST(Recurrent, AgreesWithPyTorch) {
  expect_recurrent("plain", {}, {5, 2, 4});
  expect_recurrent("states", {}, {5, 2, 4}, {1, 2, 3});
  expect_recurrent("no_bias", {.bias = false}, {3, 2, 4});
  expect_recurrent("one_step", {}, {1, 2, 4}, {1, 2, 3});
  expect_recurrent("deep", {.num_layers = 2, .batch_first = true}, {2, 5, 4}, {2, 2, 3});
  expect_recurrent("both_ways", {.num_layers = 2, .bidirectional = true}, {4, 2, 4}, {4, 2, 3});
  expect_recurrent("unbatched", {.batch_first = true, .bidirectional = true}, {4, 4}, {2, 3});
}

TEST(Recurrent, DropsBetweenLayersInTrainingAlone) {
  expect_recurrent("dropped", {.num_layers = 2, .dropout = 1}, {3, 2, 4});
  expect_recurrent("evaluated", {.num_layers = 2, .dropout = 0.5}, {3, 2, 4}, {}, false);
}

TEST(Recurrent, GoesOnFromTheStateItReturned) {
  const Tensor x = fill({6, 2, 4}, 0).to(f32);
  LSTM lstm(4, 3, {.num_layers = 2});
  const auto [all, end] = lstm(x, {});
  const auto [head, middle] = lstm(x.narrow(0, 0, 4), {});
  const auto [tail, last] = lstm(x.narrow(0, 4, 2), middle);
  EXPECT_TRUE(all_close(tail, all.narrow(0, 4, 2), tolerance(f32, 8)));
  EXPECT_TRUE(all_close(last.c, end.c, tolerance(f32, 8)));
  EXPECT_TRUE(identical(lstm(x).detach(), all.detach()));
  GRU gru(4, 3);
  EXPECT_TRUE(identical(gru(x).detach(), gru(x, {}).output.detach()));
}

TEST(Recurrent, HasPyTorchsNamesAndStart) {
  manual_seed(2);
  LSTM lstm(4, 3, {.num_layers = 2, .bidirectional = true});
  EXPECT_EQ(
      parameter_names(lstm),
      (std::vector<std::string>{
          "weight_ih_l0[12, 4]", "weight_hh_l0[12, 3]", "bias_ih_l0[12]", "bias_hh_l0[12]",
          "weight_ih_l0_reverse[12, 4]", "weight_hh_l0_reverse[12, 3]", "bias_ih_l0_reverse[12]",
          "bias_hh_l0_reverse[12]", "weight_ih_l1[12, 6]", "weight_hh_l1[12, 3]", "bias_ih_l1[12]",
          "bias_hh_l1[12]", "weight_ih_l1_reverse[12, 6]", "weight_hh_l1_reverse[12, 3]",
          "bias_ih_l1_reverse[12]", "bias_hh_l1_reverse[12]"}));
  GRU gru(10, 25, {.bias = false});
  EXPECT_EQ(parameter_names(gru),
            (std::vector<std::string>{"weight_ih_l0[75, 10]", "weight_hh_l0[75, 25]"}));
  for (const Tensor& p : gru.parameters()) {
    EXPECT_LE(p.abs().max().item(), 0.2);  // 1 / sqrt(25)
    EXPECT_GT(p.abs().max().item(), 0.99 * 0.2);
  }
  const LSTM copy = nn::clone(lstm);
  EXPECT_NE(copy.weights[0].weight_ih.data_ptr(), lstm.weights[0].weight_ih.data_ptr());
}

TEST(Recurrent, MultipliesInTheScopesTypeAndSumsInF32) {
  const Tensor x = fill({5, 2, 4}, 0).to(f32).requires_grad_();
  LSTM lstm(4, 3);
  const Tensor exact = lstm(x);
  {
    const Autocast amp(Device::cpu(), bf16);
    const auto [y, state] = lstm(x, {});
    EXPECT_EQ(y.dtype(), f32);
    EXPECT_EQ(state.c.dtype(), f32);
    EXPECT_TRUE(all_close(y, exact, tolerance(bf16, 5 * 7)));
    EXPECT_FALSE(all_close(y, exact, tolerance(f32, 5 * 7)));  // part of it was computed in bf16
    y.sum().backward();
  }
  for (const Tensor& p : lstm.parameters()) EXPECT_EQ(p.grad().dtype(), f32);
  GRU gru(4, 3);
  const Autocast amp(Device::cpu(), bf16);
  EXPECT_EQ(gru(x).dtype(), f32);
}

TEST(Recurrent, IsSummarized) {
  nn::LSTM lstm(4, 3, {.num_layers = 2, .bidirectional = true});
  const nn::ModelSummary s = nn::summarize(lstm, {5, 2, 4});
  ASSERT_EQ(s.layers.size(), 1u);
  EXPECT_EQ(s.layers[0].type, "LSTM");
  EXPECT_EQ(s.layers[0].output, (Dims{5, 2, 6}));
  EXPECT_EQ(s.layers[0].parameters, lstm.num_parameters());
  EXPECT_EQ(s.multiply_adds, 5 * 2 * (2 * 12 * (4 + 3) + 2 * 12 * (6 + 3)));
}

TEST(RecurrentErrors, NameShapes) {
  EXPECT_ERROR(LSTM(0, 3), ShapeError, "LSTM: 1 layers from 0 to 3 features");
  EXPECT_THROW(GRU(4, -1), ShapeError);
  EXPECT_THROW(GRU(4, 3, {.num_layers = 0}), ShapeError);
  EXPECT_ERROR(GRU(4, 3, {.dropout = 1.5}), Error, "GRU: the probability 1.5");
  LSTM lstm(4, 3, {.batch_first = true});
  const Tensor x = zeros({2, 5, 4});
  EXPECT_ERROR(lstm(zeros({2, 5, 3})), ShapeError,
               "LSTM: input [2, 5, 3] is neither (N, T, 4) nor (T, 4)");
  EXPECT_THROW(lstm(zeros({4})), ShapeError);
  EXPECT_ERROR(lstm(zeros({2, 0, 4})), ShapeError, "is an empty sequence");
  EXPECT_ERROR(lstm(x, {.h = zeros({1, 5, 3})}), ShapeError,
               "LSTM: a state of [1, 5, 3], but input [2, 5, 4] needs [1, 2, 3]");
  EXPECT_ERROR(lstm(x, {.h = zeros({1, 2, 3}), .c = zeros({1, 2, 4})}), ShapeError,
               "a state of [1, 2, 4]");
  EXPECT_ERROR(lstm(x[0], {.h = zeros({1, 1, 3})}), ShapeError, "needs [1, 3]");
  EXPECT_ERROR(GRU(4, 3)(x, {.h = zeros({2, 2, 3})}), ShapeError, "GRU: a state of [2, 2, 3]");
}

}  // namespace
}  // namespace rondo::test
