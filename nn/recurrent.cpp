// RNN, LSTM, GRU and their cells (see recurrent.h). Internally, sequences are (T, N, …), so each
// step is one slice.

#include "nn/recurrent.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/recurrent.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "nn/init.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo::nn {
namespace {

/// What one step computes, for the networks and the cells. `projected` is the part of the gates
/// that depends only on the input.
Tensor project_with_both_biases(const Tensor& x, const RecurrentWeights& w) {
  return linear(x, w.weight_ih, w.bias_ih.defined() ? w.bias_ih + w.bias_hh : Tensor());
}

LSTMState rnn_step(const Tensor& projected, const LSTMState& before, const RecurrentWeights& w,
                   RNNNonlinearity nonlinearity) {
  const Tensor sum = (projected + linear(before.h, w.weight_hh)).to(before.h.dtype());
  return {nonlinearity == RNNNonlinearity::relu ? relu(sum) : tanh(sum), {}};
}

LSTMState lstm_step(const Tensor& projected, const LSTMState& before, const RecurrentWeights& w) {
  const rondo::detail::LSTMStep s =
      rondo::detail::lstm_step(projected, before.h, before.c, w.weight_hh);
  return {w.weight_hr.defined() ? linear(s.h, w.weight_hr).to(s.h.dtype()) : s.h, s.c};
}

/// Here `projected` has no b_hh, which r multiplies.
LSTMState gru_step(const Tensor& projected, const LSTMState& before, const RecurrentWeights& w) {
  const Tensors of_x = chunk(projected, 3, -1);
  const Tensors of_h = chunk(linear(before.h, w.weight_hh, w.bias_hh), 3, -1);
  const Tensor r = sigmoid(of_x[0] + of_h[0]), z = sigmoid(of_x[1] + of_h[1]);
  const Tensor n = tanh(of_x[2] + r * of_h[2]);
  return {n + z * (before.h - n), {}};
}

Tensor drawn(const Dims& shape, double bound) {
  const Tensor weight = empty(shape);
  init::uniform_(weight, -bound, bound);
  return weight.requires_grad_();
}

/// The weights of `rows` gate elements of a layer of that hidden size, in PyTorch's order.
RecurrentWeights drawn_weights(std::int64_t rows, std::int64_t input, std::int64_t hidden,
                               std::int64_t projection, bool bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  RecurrentWeights w;
  w.weight_ih = drawn({rows, input}, bound);
  w.weight_hh = drawn({rows, projection > 0 ? projection : hidden}, bound);
  if (bias) {
    w.bias_ih = drawn({rows}, bound);
    w.bias_hh = drawn({rows}, bound);
  }
  if (projection > 0) w.weight_hr = drawn({projection, hidden}, bound);
  return w;
}

void show(Visitor& v, RecurrentWeights& w, const std::string& suffix) {
  v.parameter("weight_ih" + suffix, w.weight_ih);
  v.parameter("weight_hh" + suffix, w.weight_hh);
  v.parameter("bias_ih" + suffix, w.bias_ih);
  v.parameter("bias_hh" + suffix, w.bias_hh);
  v.parameter("weight_hr" + suffix, w.weight_hr);
}

std::int64_t products(const RecurrentWeights& w) {
  return w.weight_ih.numel() + w.weight_hh.numel() +
         (w.weight_hr.defined() ? w.weight_hr.numel() : 0);
}

void require_no_nonlinearity(const char* type, std::int64_t gates, RNNNonlinearity nonlinearity) {
  require(gates == 1 || nonlinearity == RNNNonlinearity::tanh, type,
          ": only an RNN has a nonlinearity to choose");
}

}  // namespace

Recurrent::Recurrent(const char* type, std::int64_t gates, std::int64_t input_size,
                     std::int64_t hidden_size, const RecurrentOptions& options)
    : input_size(input_size),
      hidden_size(hidden_size),
      options(options),
      type_(type),
      has_cell_(gates == 4) {
  require<ShapeError>(input_size > 0 && hidden_size > 0 && options.num_layers > 0, type, ": ",
                      options.num_layers, " layers from ", input_size, " to ", hidden_size,
                      " features, but all three must be positive");
  require(options.dropout >= 0 && options.dropout <= 1, type, ": the probability ", options.dropout,
          " is not in [0, 1]");
  require_no_nonlinearity(type, gates, options.nonlinearity);
  require(options.proj_size == 0 || has_cell_, type, ": only an LSTM has a proj_size");
  require<ShapeError>(options.proj_size >= 0 && options.proj_size < hidden_size, type,
                      ": proj_size ", options.proj_size, " must be smaller than hidden_size ",
                      hidden_size);
  const std::int64_t directions = options.bidirectional ? 2 : 1,
                     rows = (CheckedSize(hidden_size, type) * gates).value(),
                     below = (CheckedSize(output_size(), type) * directions).value(),
                     count = (CheckedSize(options.num_layers, type) * directions).value();
  for (std::int64_t i = 0; i < count; ++i)
    weights.push_back(drawn_weights(rows, i < directions ? input_size : below, hidden_size,
                                    options.proj_size, options.bias));
}

void Recurrent::visit(Visitor& v) {
  const std::size_t directions = options.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < weights.size(); ++i)
    show(v, weights[i],
         "_l" + std::to_string(i / directions) + (i % directions == 1 ? "_reverse" : ""));
}

void Recurrent::check(const Tensor& x, const LSTMState& first, const Tensor& lengths) const {
  x.require_defined(type_, "the input");
  require<ShapeError>((x.dim() == 2 || x.dim() == 3) && x.size(-1) == input_size, type_, ": input ",
                      x.shape(), " is neither ", options.batch_first ? "(N, T, " : "(T, N, ",
                      input_size, ") nor (T, ", input_size, ")");
  const std::int64_t time = x.dim() == 3 && options.batch_first ? 1 : 0;
  require<ShapeError>(x.size(time) > 0, type_, ": input ", x.shape(), " is an empty sequence");
  const auto check_state = [&](const Tensor& state, std::int64_t features) {
    Dims wanted = {static_cast<std::int64_t>(weights.size())};
    if (x.dim() == 3) wanted.push_back(x.size(1 - time));
    wanted.push_back(features);
    require<ShapeError>(!state.defined() || state.shape() == wanted, type_, ": a state of ",
                        state.defined() ? state.shape() : Dims{}, ", but input ", x.shape(),
                        " needs ", wanted);
  };
  check_state(first.h, output_size());
  check_state(first.c, hidden_size);
  if (!lengths.defined()) return;
  require<DTypeError>(lengths.dtype() == i64 || lengths.dtype() == i32, type_, ": the lengths are ",
                      lengths.dtype(), ", not i64 or i32");
  require(lengths.device().is_cpu(), type_,
          ": the lengths must be on the CPU, where they are read");
  require<ShapeError>(x.dim() == 3 && lengths.shape() == Dims{x.size(1 - time)}, type_,
                      ": lengths ", lengths.shape(), " for input ", x.shape(),
                      "; expected one for each sequence of a batch");
  for (std::int64_t length : lengths.to_vector<std::int64_t>())
    require<ShapeError>(length >= 1 && length <= x.size(time), type_, ": a length of ", length,
                        " is not from 1 to ", x.size(time));
}

/// Runs one layer in one direction. `state` is the first state, and afterwards the last one.
/// is_inside[t] (N, 1), if given, says whose sequence has an element t: the others keep their
/// state.
Tensor Recurrent::direction(const Tensor& x, const Tensors& is_inside, const RecurrentWeights& w,
                            bool backwards, LSTMState& state) const {
  const Tensor projected = project(x, w);
  if (has_cell_ && is_inside.empty() && !w.weight_hr.defined()) {
    const Tensors found = lstm_layer(projected, state.h, state.c, w.weight_hh, backwards);
    state = {found[0].select(0, backwards ? 0 : -1), found[1]};
    return found[0];
  }
  Tensors steps = unbind(projected);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t t = backwards ? steps.size() - 1 - i : i;
    const LSTMState next = step(steps[t], state, w);
    if (is_inside.empty()) {
      state = next;
      steps[t] = state.h;
    } else {
      state = {where(is_inside[t], next.h, state.h),
               has_cell_ ? where(is_inside[t], next.c, state.c) : Tensor()};
      steps[t] = where(is_inside[t], state.h, scalar(0, state.h.options()));
    }
  }
  return stack(steps);
}

LSTMOutput Recurrent::run(const Tensor& x, const LSTMState& first, const Tensor& lengths) {
  check(x, first, lengths);
  if (x.dim() == 2) {  // one sequence, as a batch of 1
    const std::int64_t at = options.batch_first ? 0 : 1;
    const auto batched = [](const Tensor& s) { return s.defined() ? unsqueeze(s, 1) : s; };
    const LSTMOutput found = run(unsqueeze(x, at), {batched(first.h), batched(first.c)}, {});
    return {squeeze(found.output, at),
            {squeeze(found.state.h, 1), has_cell_ ? squeeze(found.state.c, 1) : Tensor()}};
  }
  Tensor y = options.batch_first ? transpose(x, 0, 1) : x;
  const std::int64_t n = y.size(1);
  Tensors is_inside;
  if (lengths.defined()) {
    const Tensor inside = lt(unsqueeze(arange(y.size(0)), 1), lengths).to(x.device());  // (T, N)
    is_inside = unbind(unsqueeze(inside, 2));
    y = where(unsqueeze(inside, 2), y, scalar(0, y.options()));  // 0 · inf would be NaN in backward
  }
  const auto states = [&](const Tensor& given, std::int64_t features) {
    return given.defined() ? unbind(given)
                           : Tensors(weights.size(), zeros({n, features}, x.options()));
  };
  const Tensors h = states(first.h, output_size()), c = states(first.c, hidden_size);
  const std::size_t directions = options.bidirectional ? 2 : 1;
  Tensors last_h, last_c;
  for (std::size_t i = 0; i < weights.size(); i += directions) {
    if (i > 0) y = rondo::dropout(y, options.dropout, is_training());
    Tensors ways;
    for (std::size_t d = 0; d < directions; ++d) {
      LSTMState state = {h[i + d], has_cell_ ? c[i + d] : Tensor()};
      ways.push_back(direction(y, is_inside, weights[i + d], d == 1, state));
      last_h.push_back(state.h);
      last_c.push_back(state.c);
    }
    y = directions == 1 ? ways[0] : cat(ways, -1);
  }
  return {options.batch_first ? transpose(y, 0, 1) : y,
          {stack(last_h), has_cell_ ? stack(last_c) : Tensor()}};
}

RNNOutput Recurrent::called(const Tensor& x, const RNNState& first, const Tensor& lengths) {
  return call(
      [&](const Tensor& in, const RNNState& before, const Tensor& n) -> RNNOutput {
        const LSTMOutput found = run(in, {.h = before.h}, n);
        return {found.output, {found.state.h}};
      },
      x, first, lengths);
}

std::int64_t Recurrent::multiply_adds(const Tensor& x, const Tensor&) const {
  std::int64_t a_step = 0;
  for (const RecurrentWeights& w : weights) a_step += products(w);
  return x.numel() / input_size * a_step;
}

Tensor RNN::project(const Tensor& x, const RecurrentWeights& w) const {
  return project_with_both_biases(x, w);
}
LSTMState RNN::step(const Tensor& projected, const LSTMState& before,
                    const RecurrentWeights& w) const {
  return rnn_step(projected, before, w, options.nonlinearity);
}
RNNOutput RNN::operator()(const Tensor& x, const RNNState& first, const Tensor& lengths) {
  return called(x, first, lengths);
}

Tensor LSTM::project(const Tensor& x, const RecurrentWeights& w) const {
  return project_with_both_biases(x, w);
}
LSTMState LSTM::step(const Tensor& projected, const LSTMState& before,
                     const RecurrentWeights& w) const {
  return lstm_step(projected, before, w);
}
LSTMOutput LSTM::operator()(const Tensor& x, const LSTMState& first, const Tensor& lengths) {
  return call([&](const auto&... inputs) { return run(inputs...); }, x, first, lengths);
}

Tensor GRU::project(const Tensor& x, const RecurrentWeights& w) const {
  return linear(x, w.weight_ih, w.bias_ih);
}
LSTMState GRU::step(const Tensor& projected, const LSTMState& before,
                    const RecurrentWeights& w) const {
  return gru_step(projected, before, w);
}
GRUOutput GRU::operator()(const Tensor& x, const GRUState& first, const Tensor& lengths) {
  return called(x, first, lengths);
}

RecurrentCell::RecurrentCell(const char* type, std::int64_t gates, std::int64_t input_size,
                             std::int64_t hidden_size, const RecurrentCellOptions& options)
    : input_size(input_size), hidden_size(hidden_size), options(options), type_(type) {
  require<ShapeError>(input_size > 0 && hidden_size > 0, type, ": from ", input_size, " to ",
                      hidden_size, " features, but both must be positive");
  require_no_nonlinearity(type, gates, options.nonlinearity);
  weights = drawn_weights((CheckedSize(hidden_size, type) * gates).value(), input_size, hidden_size,
                          0, options.bias);
}

void RecurrentCell::visit(Visitor& v) { show(v, weights, ""); }

LSTMState RecurrentCell::run(const Tensor& x, const LSTMState& before) {
  x.require_defined(type_, "the input");
  require<ShapeError>((x.dim() == 1 || x.dim() == 2) && x.size(-1) == input_size, type_, ": input ",
                      x.shape(), " is neither (N, ", input_size, ") nor (", input_size, ")");
  Dims wanted = x.shape();
  wanted[x.dim() - 1] = hidden_size;
  const auto given = [&](const Tensor& state) {
    require<ShapeError>(!state.defined() || state.shape() == wanted, type_, ": a state of ",
                        state.defined() ? state.shape() : Dims{}, ", but input ", x.shape(),
                        " needs ", wanted);
    return state.defined() ? state : zeros(wanted, x.options());
  };
  return step(x, {given(before.h), given(before.c)});
}

Tensor RecurrentCell::called(const Tensor& x, const Tensor& h) {
  return call([&](const Tensor& in, const Tensor& before) { return run(in, {.h = before}).h; }, x,
              h);
}

LSTMState LSTMCell::operator()(const Tensor& x, const LSTMState& before) {
  return call([&](const auto&... inputs) { return run(inputs...); }, x, before);
}

std::int64_t RecurrentCell::multiply_adds(const Tensor& x, const Tensor&) const {
  return x.numel() / input_size * products(weights);
}

LSTMState RNNCell::step(const Tensor& x, const LSTMState& before) const {
  return rnn_step(project_with_both_biases(x, weights), before, weights, options.nonlinearity);
}
LSTMState LSTMCell::step(const Tensor& x, const LSTMState& before) const {
  return lstm_step(project_with_both_biases(x, weights), before, weights);
}
LSTMState GRUCell::step(const Tensor& x, const LSTMState& before) const {
  return gru_step(linear(x, weights.weight_ih, weights.bias_ih), before, weights);
}

Tensor pad_sequence(const Tensors& sequences, PadSequenceOptions options) {
  const OpRange op("pad_sequence");
  require<ShapeError>(!sequences.empty(), "pad_sequence: the list of sequences is empty");
  std::int64_t longest = 0;
  for (const Tensor& x : sequences) {
    require<ShapeError>(x.dim() > 0, "pad_sequence: a sequence has no dimension");
    longest = std::max(longest, x.size(0));
  }
  Tensors padded;
  for (const Tensor& x : sequences) {
    Dims amounts = Dims::filled(2 * x.dim(), 0);
    amounts[-1] = longest - x.size(0);  // after the first dimension, which pad counts last
    padded.push_back(pad(x, amounts, PadMode::constant, options.padding_value));
  }
  return stack(padded, options.batch_first ? 0 : 1);
}

}  // namespace rondo::nn
