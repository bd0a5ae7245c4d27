#include "nn/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/reduce.h"
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
using nn::RNN;
using nn::RNNNonlinearity;

/// The states and lengths of a call, if they are given, and the mode.
struct RecurrentCase {
  Dims state = {};
  std::vector<std::int64_t> lengths = {};
  bool train = true;
};

template <class Network>
void expect_network(const std::string& name, const RecurrentOptions& options, const Dims& shape,
                    const RecurrentCase& given) {
  constexpr bool has_cell = std::is_same_v<Network, LSTM>;
  std::vector<Dims> shapes = {shape};
  if (!given.state.empty()) shapes.push_back(given.state);
  if (has_cell && !given.state.empty()) {
    shapes.push_back(given.state);
    shapes.back()[given.state.size() - 1] = 3;  // c has no projection
  }
  const Tensor lengths = given.lengths.empty() ? Tensor() : tensor(given.lengths);
  for (DType dtype : {f64, f32}) {
    Network network(4, 3, options);
    network.train(given.train);
    expect_sequence(
        name, shapes, dtype,
        [&](const Tensors& x) {
          const Tensor h = x.size() > 1 ? x[1] : Tensor();
          if constexpr (has_cell) {
            const auto [y, last] =
                network(x[0], {.h = h, .c = x.size() > 2 ? x[2] : Tensor()}, lengths);
            return Tensors{y, last.h, last.c};
          } else {
            const auto [y, last] = network(x[0], {.h = h}, lengths);
            return Tensors{y, last.h};
          }
        },
        &network);
  }
}

/// Compares output and last states with PyTorch in f64 and f32, from 4 to 3 features.
void expect_recurrent(const std::string& name, const RecurrentOptions& options, const Dims& shape,
                      const RecurrentCase& given = {}) {
  expect_network<RNN>("rnn." + name, options, shape, given);
  expect_network<LSTM>("lstm." + name, options, shape, given);
  expect_network<GRU>("gru." + name, options, shape, given);
}

TEST(Recurrent, AgreesWithPyTorch) {
  expect_recurrent("plain", {}, {5, 2, 4});
  expect_recurrent("states", {}, {5, 2, 4}, {.state = {1, 2, 3}});
  expect_recurrent("no_bias", {.bias = false}, {3, 2, 4});
  expect_recurrent("one_step", {}, {1, 2, 4}, {.state = {1, 2, 3}});
  expect_recurrent("deep", {.num_layers = 2, .batch_first = true}, {2, 5, 4}, {.state = {2, 2, 3}});
  expect_recurrent("both_ways", {.num_layers = 2, .bidirectional = true}, {4, 2, 4},
                   {.state = {4, 2, 3}});
  expect_recurrent("unbatched", {.batch_first = true, .bidirectional = true}, {4, 4},
                   {.state = {2, 3}});
  expect_network<RNN>("rnn.relu", {.num_layers = 2, .nonlinearity = RNNNonlinearity::relu},
                      {3, 2, 4}, {});
}

TEST(Recurrent, ReadsPaddedSequencesAsPyTorchReadsPackedOnes) {
  expect_recurrent("lengths", {}, {4, 3, 4}, {.state = {1, 3, 3}, .lengths = {2, 4, 1}});
  expect_recurrent("lengths_both_ways",
                   {.num_layers = 2, .batch_first = true, .bidirectional = true}, {3, 5, 4},
                   {.state = {4, 3, 3}, .lengths = {3, 1, 4}});
}

TEST(Recurrent, IgnoresTheValuesOfThePadding) {
  const Tensor x = fill({4, 2, 4}, 0).to(f32), lengths = tensor<std::int64_t>({3, 1});
  const Tensor dirty = x.clone();
  dirty[3].fill_(std::numeric_limits<float>::infinity());
  dirty[1][1].fill_(std::numeric_limits<float>::quiet_NaN());
  dirty.requires_grad_();
  LSTM lstm(4, 3, {.num_layers = 2, .bidirectional = true});
  const auto [y, last] = lstm(x, {}, lengths);
  const auto [z, end] = lstm(dirty, {}, lengths);
  EXPECT_TRUE(identical(y, z));
  EXPECT_TRUE(identical(last.h, end.h));
  z.sum().backward();
  EXPECT_TRUE(all(isclose(dirty.grad(), dirty.grad())).item<bool>());  // no NaN
  EXPECT_EQ(dirty.grad()[3].abs().sum().item(), 0);
  for (const Tensor& p : lstm.parameters())
    EXPECT_TRUE(all(isclose(p.grad(), p.grad())).item<bool>());
}

TEST(Recurrent, ProjectsTheLstmsState) {
  expect_network<LSTM>("lstm.projected", {.num_layers = 2, .bidirectional = true, .proj_size = 2},
                       {3, 2, 4}, {.state = {4, 2, 2}});
  expect_network<LSTM>("lstm.projected_lengths", {.num_layers = 2, .proj_size = 1}, {3, 2, 4},
                       {.state = {2, 2, 1}, .lengths = {1, 3}});
  LSTM lstm(4, 3, {.num_layers = 2, .proj_size = 2});
  EXPECT_EQ(parameter_names(lstm),
            (std::vector<std::string>{"weight_ih_l0[12, 4]", "weight_hh_l0[12, 2]",
                                      "bias_ih_l0[12]", "bias_hh_l0[12]", "weight_hr_l0[2, 3]",
                                      "weight_ih_l1[12, 2]", "weight_hh_l1[12, 2]",
                                      "bias_ih_l1[12]", "bias_hh_l1[12]", "weight_hr_l1[2, 3]"}));
}

/// Compares one step with PyTorch.
template <class Cell>
void expect_cell(const std::string& name, const Dims& shape, const Dims& state,
                 const nn::RecurrentCellOptions& options = {}) {
  constexpr bool has_cell = std::is_same_v<Cell, nn::LSTMCell>;
  std::vector<Dims> shapes = {shape};
  if (!state.empty()) shapes.insert(shapes.end(), has_cell ? 2 : 1, state);
  for (DType dtype : {f64, f32}) {
    Cell cell(4, 3, options);
    expect_sequence(
        name, shapes, dtype,
        [&](const Tensors& x) {
          if constexpr (has_cell) {
            const nn::LSTMState after =
                x.size() > 1 ? cell(x[0], {.h = x[1], .c = x[2]}) : cell(x[0], {});
            return Tensors{after.h, after.c};
          } else {
            return Tensors{x.size() > 1 ? cell(x[0], x[1]) : cell(x[0])};
          }
        },
        &cell);
  }
}

template <class Cell>
void expect_cells(const std::string& kind) {
  expect_cell<Cell>(kind + ".plain", {2, 4}, {2, 3});
  expect_cell<Cell>(kind + ".unbatched", {4}, {3}, {.bias = false});
  expect_cell<Cell>(kind + ".no_state", {2, 4}, {});
}

TEST(RecurrentCell, AgreesWithPyTorch) {
  expect_cells<nn::RNNCell>("rnncell");
  expect_cells<nn::LSTMCell>("lstmcell");
  expect_cells<nn::GRUCell>("grucell");
  expect_cell<nn::RNNCell>("rnncell.relu", {2, 4}, {2, 3}, {.nonlinearity = RNNNonlinearity::relu});
}

TEST(RecurrentCell, HasPyTorchsNamesAndStart) {
  nn::GRUCell cell(10, 25);
  EXPECT_EQ(parameter_names(cell),
            (std::vector<std::string>{"weight_ih[75, 10]", "weight_hh[75, 25]", "bias_ih[75]",
                                      "bias_hh[75]"}));
  for (const Tensor& p : cell.parameters()) {
    EXPECT_LE(p.abs().max().item(), 0.2);  // 1 / sqrt(25)
    EXPECT_GT(p.abs().max().item(), 0.9 * 0.2);
  }
  EXPECT_EQ(nn::summarize(cell, {3, 10}).multiply_adds, 3 * 75 * (10 + 25));
}

TEST(Recurrent, DropsBetweenLayersInTrainingAlone) {
  expect_recurrent("dropped", {.num_layers = 2, .dropout = 1}, {3, 2, 4});
  expect_recurrent("evaluated", {.num_layers = 2, .dropout = 0.5}, {3, 2, 4}, {.train = false});
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
  const Tensor h = fill({1, 2, 3}, 1).to(f32);
  EXPECT_TRUE(identical(gru(x, h).output.detach(), gru(x, {.h = h}).output.detach()));
  const Tensor lengths = tensor<std::int32_t>({6, 2});
  EXPECT_TRUE(
      identical(gru(x, h, lengths).output.detach(), gru(x, h, lengths.to(i64)).output.detach()));
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
  RNN rnn(4, 3);
  LSTM projected(4, 3, {.proj_size = 2});
  const Autocast amp(Device::cpu(), bf16);
  EXPECT_EQ(gru(x).dtype(), f32);
  EXPECT_EQ(rnn(x).dtype(), f32);
  EXPECT_EQ(projected(x).dtype(), f32);
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
  EXPECT_ERROR(GRU(4, 3, {.proj_size = 2}), Error, "GRU: only an LSTM has a proj_size");
  EXPECT_ERROR(LSTM(4, 3, {.proj_size = 3}), ShapeError,
               "LSTM: proj_size 3 must be smaller than hidden_size 3");
  EXPECT_ERROR(LSTM(4, 3, {.nonlinearity = RNNNonlinearity::relu}), Error,
               "LSTM: only an RNN has a nonlinearity to choose");
  EXPECT_ERROR(GRU(4, 3)(x, zeros({2, 2, 3})), ShapeError, "GRU: a state of [2, 2, 3]");
  const auto call = [&](const Tensor& lengths) { return lstm(x, {}, lengths); };
  EXPECT_ERROR(call(ones({2})), DTypeError, "LSTM: the lengths are f32, not i64");
  EXPECT_ERROR(call(tensor<std::int64_t>({1, 2, 3})), ShapeError,
               "LSTM: lengths [3] for input [2, 5, 4]; expected one for each sequence");
  EXPECT_ERROR(call(tensor<std::int64_t>({0, 2})), ShapeError,
               "LSTM: a length of 0 is not from 1 to 5");
  EXPECT_ERROR(call(tensor<std::int64_t>({5, 6})), ShapeError, "a length of 6");
  EXPECT_ERROR(lstm(x[0], {}, tensor<std::int64_t>({5})), ShapeError, "LSTM: lengths [1]");
  nn::LSTMCell cell(4, 3);
  EXPECT_ERROR(cell(x), ShapeError, "LSTMCell: input [2, 5, 4] is neither (N, 4) nor (4)");
  EXPECT_ERROR(cell(x[0], {.h = zeros({5, 3}), .c = zeros({5, 4})}), ShapeError,
               "LSTMCell: a state of [5, 4], but input [5, 4] needs [5, 3]");
  EXPECT_ERROR(nn::GRUCell(4, 3, {.nonlinearity = RNNNonlinearity::relu}), Error,
               "GRUCell: only an RNN has a nonlinearity");
  EXPECT_THROW(nn::RNNCell(0, 3), ShapeError);
}

TEST(PadSequence, PadsToTheLongest) {
  const Tensor a = tensor<float>({{1, 2}, {3, 4}, {5, 6}}).requires_grad_(),
               b = tensor<float>({{7, 8}});
  const Tensor y = nn::pad_sequence({a, b}, {.batch_first = true, .padding_value = -1});
  EXPECT_TRUE(test::identical(
      y.detach(), tensor<float>({{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}, {-1, -1}, {-1, -1}}})));
  EXPECT_TRUE(test::identical(nn::pad_sequence({a.detach(), b}, {.padding_value = -1}),
                              y.detach().transpose(0, 1).contiguous()));
  (y * y).sum().backward();
  EXPECT_TRUE(test::identical(a.grad(), a.detach() * 2.0));
  EXPECT_EQ(nn::pad_sequence({tensor<std::int64_t>({1, 2}), tensor<std::int64_t>({3})}).shape(),
            (Dims{2, 2}));
  EXPECT_ERROR(nn::pad_sequence({}), ShapeError, "pad_sequence: the list of sequences is empty");
  EXPECT_ERROR(nn::pad_sequence({a, ones({2, 3})}), ShapeError,
               "pad_sequence: stack: tensor 1 has the shape [3, 3], the first [3, 2]");
}

}  // namespace
}  // namespace rondo::test
