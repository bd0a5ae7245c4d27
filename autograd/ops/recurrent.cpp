// The LSTM over a whole sequence: a kernel if the backend has one for the dtype (Backend::lstm).
// Else, and for second derivatives, the steps are composed of ops.

#include "autograd/ops/recurrent.h"

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {

detail::LSTMStep detail::lstm_step(const Tensor& of_x, const Tensor& h, const Tensor& c,
                                   const Tensor& weight_hh) {
  const Tensors gates = chunk(of_x + linear(h, weight_hh), 4, -1);
  LSTMStep s = {
      .i = sigmoid(gates[0]), .f = sigmoid(gates[1]), .g = tanh(gates[2]), .o = sigmoid(gates[3])};
  s.c = s.f * c + s.i * s.g;
  s.tanh_c = tanh(s.c);
  s.h = s.o * s.tanh_c;
  return s;
}

namespace {

using detail::lstm_step;
using detail::LSTMStep;

/// `count` elements of the first dimension of a contiguous tensor; not recorded.
Tensor part(const Tensor& x, std::int64_t first, std::int64_t count) {
  Dims shape = x.shape();
  shape[0] = count;
  return x.as_view(shape, x.strides(), x.storage_offset() + first * x.stride(0));
}
/// (T, N, F) as (T N, F).
Tensor rows(const Tensor& x) {
  return x.as_view({x.size(0) * x.size(1), x.size(2)}, {x.size(2), 1}, x.storage_offset());
}

/// The steps in the order in which they run. The kernels keep states as (T + 1, N, H), the first
/// state included.
struct Order {
  std::int64_t steps;
  bool reverse;
  std::int64_t step(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
  Tensor first(const Tensor& states) const { return part(states, reverse ? steps : 0, 1); }
  Tensor last(const Tensor& states) const { return part(states, reverse ? 0 : steps, 1); }
  /// The states before, or after, each step.
  Tensor before(const Tensor& states) const { return part(states, reverse ? 1 : 0, steps); }
  Tensor after(const Tensor& states) const { return part(states, reverse ? 0 : 1, steps); }
};

struct LSTMLayerBackward final : Node {
  SavedTensor of_x, h0, c0, weight;  // the inputs
  SavedTensor gates, h, c;           // activated gates (T, N, 4 H), states (T + 1, N, H)
  Order order;

  LSTMLayerBackward(const Tensor& of_x, const Tensor& h0, const Tensor& c0, const Tensor& weight,
                    const Tensor& gates, const Tensor& h, const Tensor& c, Order order)
      : of_x(of_x), h0(h0), c0(c0), weight(weight), gates(gates), h(h), c(c), order(order) {}
  const char* name() const override { return "lstm_layer"; }

  Tensors backward(const Tensors& dy) override {
    if (GradMode::is_enabled()) return in_ops(dy);
    const Tensor w = weight.get(*this), activated = gates.get(*this), states = h.get(*this);
    const Tensor dgates = Tensor::empty_like(activated);
    const Dims state = {states.size(1), states.size(2)};
    const Tensor dh = zeros(state, states.options()),
                 dc = dy[1].defined() ? contiguous(dy[1].clone()) : zeros(state, states.options());
    backend(w).lstm_backward(w, activated, c.get(*this), order.reverse,
                             dy[0].defined() ? contiguous(dy[0]) : Tensor(), dgates, dh, dc);
    Tensor dw;
    if (wants(3)) dw = matmul(transpose(rows(dgates), 0, 1), rows(order.before(states)));
    return {dgates, dh, dc, dw};
  }

  // The same in differentiable ops, for create_graph: the states are recomputed from the inputs.
  Tensors in_ops(const Tensors& dy) {
    const Tensor x = of_x.get(*this), w = weight.get(*this);
    Tensors h_before = {h0.get(*this)}, c_before = {c0.get(*this)};
    std::vector<LSTMStep> done;
    for (std::int64_t i = 0; i < order.steps; ++i) {
      done.push_back(lstm_step(select(x, 0, order.step(i)), h_before.back(), c_before.back(), w));
      h_before.push_back(done.back().h);
      c_before.push_back(done.back().c);
    }
    Tensors dgates(done.size());
    Tensor dh = zeros_like(h_before[0]), dc = dy[1].defined() ? dy[1] : dh, dw = zeros_like(w);
    for (std::size_t i = done.size(); i-- > 0;) {
      const LSTMStep& s = done[i];
      const std::int64_t t = order.step(static_cast<std::int64_t>(i));
      if (dy[0].defined()) dh = dh + select(dy[0], 0, t);
      dc = dc + dh * s.o * (1 - s.tanh_c * s.tanh_c);
      const Tensor d = cat({dc * s.g * s.i * (1 - s.i), dc * c_before[i] * s.f * (1 - s.f),
                            dc * s.i * (1 - s.g * s.g), dh * s.tanh_c * s.o * (1 - s.o)},
                           -1);
      dc = dc * s.f;
      dh = matmul(d, w);
      dw = dw + matmul(transpose(d, 0, 1), h_before[i]);
      dgates[static_cast<std::size_t>(t)] = d;
    }
    return {stack(dgates), dh, dc, dw};
  }

  void release_saved() override {
    for (SavedTensor* saved : {&of_x, &h0, &c0, &weight, &gates, &h, &c}) saved->reset();
  }
};

Tensors composed(const Tensor& of_x, const Tensor& h0, const Tensor& c0, const Tensor& weight,
                 Order order) {
  Tensors hidden(static_cast<std::size_t>(order.steps));
  Tensor h = h0, c = c0;
  for (std::int64_t i = 0; i < order.steps; ++i) {
    const LSTMStep s = lstm_step(select(of_x, 0, order.step(i)), h, c, weight);
    hidden[static_cast<std::size_t>(order.step(i))] = h = s.h;
    c = s.c;
  }
  return {stack(hidden), c};
}

Tensors fused(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& w, Order order) {
  const Tensor gates = Tensor::empty_like(x);
  const Tensor h = Tensor::empty({order.steps + 1, x.size(1), w.size(1)}, x.options()),
               c = Tensor::empty(h.shape(), x.options());
  const auto flat = [&](const Tensor& state) {
    return state.as_view(h0.shape(), {h.stride(1), 1}, state.storage_offset());
  };
  backend(x).copy(h0, flat(order.first(h)));
  backend(x).copy(c0, flat(order.first(c)));
  backend(x).lstm(x, w, order.reverse, gates, h, c);
  return record_all<LSTMLayerBackward>({x, h0, c0, w}, {order.after(h), flat(order.last(c))}, x, h0,
                                       c0, w, gates, h, c, order);
}

}  // namespace

Tensors lstm_layer(const Tensor& of_x, const Tensor& h0, const Tensor& c0, const Tensor& weight_hh,
                   bool reverse) {
  const OpRange op("lstm_layer");
  require_one_device("lstm_layer", {of_x, h0, c0, weight_hh});
  require_float(of_x, "lstm_layer");
  require<ShapeError>(weight_hh.dim() == 2 && weight_hh.size(0) == 4 * weight_hh.size(1),
                      "lstm_layer: weight_hh ", weight_hh.shape(), " is not (4 H, H)");
  const std::int64_t width = weight_hh.size(1);
  require<ShapeError>(of_x.dim() == 3 && of_x.size(0) > 0 && of_x.size(2) == 4 * width,
                      "lstm_layer: of_x ", of_x.shape(), " is not (T, N, ", 4 * width,
                      ") with at least one step");
  const Dims state = {of_x.size(1), width};
  require<ShapeError>(h0.shape() == state && c0.shape() == state, "lstm_layer: states ", h0.shape(),
                      " and ", c0.shape(), ", expected ", state);
  const Order order = {of_x.size(0), reverse};
  const bool one_type =
      h0.dtype() == of_x.dtype() && c0.dtype() == of_x.dtype() && weight_hh.dtype() == of_x.dtype();
  if (!one_type || of_x.numel() == 0 || Autocast::is_enabled() || TraceMode::is_enabled() ||
      !backend(of_x).has_lstm(of_x))
    return composed(of_x, h0, c0, weight_hh, order);
  return fused(contiguous(of_x), h0, c0, contiguous(weight_hh), order);
}

}  // namespace rondo
