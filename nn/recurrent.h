#pragma once
// LSTM and GRU: networks that read a sequence element by element and keep a state (Hochreiter &
// Schmidhuber 1997, with the forget gate of Gers et al. 2000; Cho et al. 2014).
//
// The part of the gates that depends only on the input is computed by one product for all elements.
// The part that depends on the state needs one product per step. Each step is recorded op by op, so
// it runs on every device and has derivatives of any order.

#include <string_view>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

struct RecurrentOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  // (N, T, …) instead of (T, N, …)
  double dropout = 0;        // of the output of each layer except the last, in training
  bool bidirectional = false;
};

/// The weights of one direction of one layer; G is the number of gates, H the hidden_size.
struct RecurrentWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;  // (G H, input), (G H, H), (G H), (G H)
};

/// The base of both classes. x (T, N, input_size), (N, T, input_size) with batch_first, or (T,
/// input_size) without a batch. The output has the same layout with D hidden_size features. With
/// `bidirectional`, D is 2 and the features of the backward direction come second; else D is 1.
/// States are (D num_layers, N, hidden_size), the directions of layer 0 first, and without N if x
/// has no batch. An undefined state means zeros.
///
/// Parameters are weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then those of the backward
/// direction with the suffix _reverse, then layer 1, all drawn from U(-1/sqrt(H), 1/sqrt(H)). One
/// bias would be enough, but PyTorch's files have both. Throws ShapeError for other shapes and for
/// empty sequences, and Error for a dropout outside [0, 1].
///
/// Under Autocast, the products run in the scope's type. States and output keep x's dtype, because
/// they are sums over all steps.
struct Recurrent : Module {
  std::int64_t input_size, hidden_size;
  RecurrentOptions options;
  std::vector<RecurrentWeights> weights;  // of layer 0, of its backward direction, of layer 1, …

  void visit(Visitor& v) override;
  std::string extra_repr() const override;
  std::int64_t multiply_adds(const Tensor& x, const Tensor&) const override;

 protected:
  /// The state after a step, or before the first one.
  struct State {
    Tensor h, c;
  };
  struct Result {
    Tensor output;
    State last;
  };

  Recurrent(const char* type, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
            const RecurrentOptions& options);
  Result run(const Tensor& x, const State& first);

 private:
  /// The part of the gates that depends only on the input, for all steps: (T, N, G H).
  virtual Tensor project(const Tensor& x, const RecurrentWeights& w) const = 0;
  virtual State step(const Tensor& projected, const State& before,
                     const RecurrentWeights& w) const = 0;
  void check(const Tensor& x, const State& first) const;
  Tensor direction(const Tensor& x, const RecurrentWeights& w, bool backwards, State& state) const;

  const char* type_;
  bool has_cell_;
};

struct LSTMState {
  Tensor h = {}, c = {};
  template <class V>
  void visit(V&& v) {
    v("h", h);
    v("c", c);
  }
};
struct LSTMOutput {
  Tensor output;
  LSTMState state;  // after the last element
  template <class V>
  void visit(V&& v) {
    v("output", output);
    v("state", state);
  }
};

/// i, f, o = sigmoid and g = tanh of W_ih x + b_ih + W_hh h + b_hh, in the order i, f, g, o;
/// c = f c + i g; h = o tanh(c). Agrees with torch.nn.LSTM, except that proj_size is missing.
///
///   nn::LSTM lstm(10, 20, {.num_layers = 2});
///   Tensor y = lstm(x);
///   auto [z, state] = lstm(x, {.h = h0, .c = c0});
struct LSTM : Recurrent {
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("LSTM", 4, input_size, hidden_size, options) {}
  Tensor forward(const Tensor& x) override { return run(x, {}).output; }
  using Module::operator();
  LSTMOutput operator()(const Tensor& x, const LSTMState& first);

 private:
  Tensor project(const Tensor& x, const RecurrentWeights& w) const override;
  State step(const Tensor& projected, const State& before,
             const RecurrentWeights& w) const override;
};

struct GRUState {
  Tensor h = {};
  template <class V>
  void visit(V&& v) {
    v("h", h);
  }
};
struct GRUOutput {
  Tensor output;
  GRUState state;
  template <class V>
  void visit(V&& v) {
    v("output", output);
    v("state", state);
  }
};

/// r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), in
/// the order r, z, n; h = (1 - z) n + z h. Agrees with torch.nn.GRU.
struct GRU : Recurrent {
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("GRU", 3, input_size, hidden_size, options) {}
  Tensor forward(const Tensor& x) override { return run(x, {}).output; }
  using Module::operator();
  GRUOutput operator()(const Tensor& x, const GRUState& first);

 private:
  Tensor project(const Tensor& x, const RecurrentWeights& w) const override;
  State step(const Tensor& projected, const State& before,
             const RecurrentWeights& w) const override;
};

}  // namespace rondo::nn
