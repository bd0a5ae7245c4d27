// LSTM, GRU (see recurrent.h). Internally, sequences are (T, N, …), so each step is one slice.

#include "nn/recurrent.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

Tensor drawn(const Dims& shape, double bound) {
  const Tensor weight = empty(shape);
  init::uniform_(weight, -bound, bound);
  return weight.requires_grad_();
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
                      " features");
  require(options.dropout >= 0 && options.dropout <= 1, type, ": the probability ", options.dropout,
          " is not in [0, 1]");
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const CheckedSize hidden(hidden_size, type);
  const std::int64_t directions = options.bidirectional ? 2 : 1, rows = (hidden * gates).value(),
                     below = (hidden * directions).value(),  // features from one layer to the next
      count = (CheckedSize(options.num_layers, type) * directions).value();
  for (std::int64_t i = 0; i < count; ++i) {
    RecurrentWeights w;
    w.weight_ih = drawn({rows, i < directions ? input_size : below}, bound);
    w.weight_hh = drawn({rows, hidden_size}, bound);
    if (options.bias) {
      w.bias_ih = drawn({rows}, bound);
      w.bias_hh = drawn({rows}, bound);
    }
    weights.push_back(w);
  }
}

void Recurrent::visit(Visitor& v) {
  const std::size_t directions = options.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string suffix =
        "_l" + std::to_string(i / directions) + (i % directions == 1 ? "_reverse" : "");
    v.parameter("weight_ih" + suffix, weights[i].weight_ih);
    v.parameter("weight_hh" + suffix, weights[i].weight_hh);
    v.parameter("bias_ih" + suffix, weights[i].bias_ih);
    v.parameter("bias_hh" + suffix, weights[i].bias_hh);
  }
}

void Recurrent::check(const Tensor& x, const State& first) const {
  require<ShapeError>((x.dim() == 2 || x.dim() == 3) && x.size(-1) == input_size, type_, ": input ",
                      x.shape(), " is neither ", options.batch_first ? "(N, T, " : "(T, N, ",
                      input_size, ") nor (T, ", input_size, ")");
  const std::int64_t time = x.dim() == 3 && options.batch_first ? 1 : 0;
  require<ShapeError>(x.size(time) > 0, type_, ": input ", x.shape(), " is an empty sequence");
  Dims wanted = {static_cast<std::int64_t>(weights.size())};
  if (x.dim() == 3) wanted.push_back(x.size(1 - time));
  wanted.push_back(hidden_size);
  for (const Tensor* state : {&first.h, &first.c})
    require<ShapeError>(!state->defined() || state->shape() == wanted, type_, ": a state of ",
                        state->defined() ? state->shape() : Dims{}, ", but input ", x.shape(),
                        " needs ", wanted);
}

/// Runs one layer in one direction. `state` is the first state, and afterwards the last one.
Tensor Recurrent::direction(const Tensor& x, const RecurrentWeights& w, bool backwards,
                            State& state) const {
  Tensors steps = unbind(project(x, w));
  if (backwards) std::reverse(steps.begin(), steps.end());
  for (Tensor& at : steps) {
    state = step(at, state, w);
    at = state.h;
  }
  if (backwards) std::reverse(steps.begin(), steps.end());
  return stack(steps);
}

Recurrent::Result Recurrent::run(const Tensor& x, const State& first) {
  check(x, first);
  if (x.dim() == 2) {  // one sequence, as a batch of 1
    const std::int64_t at = options.batch_first ? 0 : 1;
    const auto batched = [](const Tensor& s) { return s.defined() ? unsqueeze(s, 1) : s; };
    const Result found = run(unsqueeze(x, at), {batched(first.h), batched(first.c)});
    return {squeeze(found.output, at),
            {squeeze(found.last.h, 1), has_cell_ ? squeeze(found.last.c, 1) : Tensor()}};
  }
  Tensor y = options.batch_first ? transpose(x, 0, 1) : x;
  const Tensor none = zeros({y.size(1), hidden_size}, x.options());
  const Tensors h = first.h.defined() ? unbind(first.h) : Tensors(weights.size(), none);
  const Tensors c = first.c.defined() ? unbind(first.c) : Tensors(weights.size(), none);
  const std::size_t directions = options.bidirectional ? 2 : 1;
  Tensors last_h, last_c;
  for (std::size_t i = 0; i < weights.size(); i += directions) {
    if (i > 0) y = rondo::dropout(y, options.dropout, is_training());
    Tensors ways;
    for (std::size_t d = 0; d < directions; ++d) {
      State state = {h[i + d], has_cell_ ? c[i + d] : Tensor()};
      ways.push_back(direction(y, weights[i + d], d == 1, state));
      last_h.push_back(state.h);
      last_c.push_back(state.c);
    }
    y = directions == 1 ? ways[0] : cat(ways, -1);
  }
  return {options.batch_first ? transpose(y, 0, 1) : y,
          {stack(last_h), has_cell_ ? stack(last_c) : Tensor()}};
}

Tensor LSTM::project(const Tensor& x, const RecurrentWeights& w) const {
  return linear(x, w.weight_ih, w.bias_ih.defined() ? w.bias_ih + w.bias_hh : Tensor());
}

Recurrent::State LSTM::step(const Tensor& projected, const State& before,
                            const RecurrentWeights& w) const {
  const Tensors gates = chunk(projected + linear(before.h, w.weight_hh), 4, 1);
  const Tensor c = sigmoid(gates[1]) * before.c + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(c), c};
}

LSTMOutput LSTM::operator()(const Tensor& x, const LSTMState& first) {
  return call(
      [&](const Tensor& in, const LSTMState& before) -> LSTMOutput {
        const Result found = run(in, {before.h, before.c});
        return {found.output, {found.last.h, found.last.c}};
      },
      x, first);
}

Tensor GRU::project(const Tensor& x, const RecurrentWeights& w) const {
  return linear(x, w.weight_ih, w.bias_ih);
}

Recurrent::State GRU::step(const Tensor& projected, const State& before,
                           const RecurrentWeights& w) const {
  const Tensors of_x = chunk(projected, 3, 1);
  const Tensors of_h = chunk(linear(before.h, w.weight_hh, w.bias_hh), 3, 1);
  const Tensor r = sigmoid(of_x[0] + of_h[0]), z = sigmoid(of_x[1] + of_h[1]);
  const Tensor n = tanh(of_x[2] + r * of_h[2]);
  return {n + z * (before.h - n), {}};
}

GRUOutput GRU::operator()(const Tensor& x, const GRUState& first) {
  return call(
      [&](const Tensor& in, const GRUState& before) -> GRUOutput {
        const Result found = run(in, {before.h, {}});
        return {found.output, {found.last.h}};
      },
      x, first);
}

std::int64_t Recurrent::multiply_adds(const Tensor& x, const Tensor&) const {
  std::int64_t a_step = 0;
  for (const RecurrentWeights& w : weights) a_step += w.weight_ih.numel() + w.weight_hh.numel();
  return x.numel() / input_size * a_step;
}

}  // namespace rondo::nn
