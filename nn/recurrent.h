#pragma once
// RNN, LSTM and GRU: networks that read a sequence element by element and keep a state (Elman 1990;
// Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000; Cho et al. 2014).
// RNNCell, LSTMCell and GRUCell are one step of them.
//
// The part of the gates that depends only on the input is computed by one product for all elements.
// The part that depends on the state needs one product per step. Each step is recorded op by op, so
// it runs on every device and has derivatives of any order.

#include <concepts>
#include <string_view>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

enum class RNNNonlinearity { tanh, relu };

struct RecurrentOptions {
  std::int64_t num_layers = 1;
  RNNNonlinearity nonlinearity = RNNNonlinearity::tanh;  // RNN only
  bool bias = true;
  bool batch_first = false;  // (N, T, …) instead of (T, N, …)
  double dropout = 0;        // of the output of each layer except the last, in training
  bool bidirectional = false;
  std::int64_t proj_size = 0;  // LSTM only; 0: no projection
};

/// The weights of one direction of one layer; G is the number of gates, H the hidden_size, R the
/// size of h: proj_size, or H without a projection.
struct RecurrentWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;  // (G H, input), (G H, R), (G H), (G H)
  Tensor weight_hr = {};                          // (R, H), if there is a projection
};

/// The state after a step, or before the first one. Only an LSTM has a c. Undefined means zeros.
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
struct RNNState {
  Tensor h = {};
  template <class V>
  void visit(V&& v) {
    v("h", h);
  }
};
struct RNNOutput {
  Tensor output;
  RNNState state;  // after the last element
  template <class V>
  void visit(V&& v) {
    v("output", output);
    v("state", state);
  }
};

/// The base of the three. x (T, N, input_size), (N, T, input_size) with batch_first, or (T,
/// input_size) without a batch. The output has the same layout with D R features. With
/// `bidirectional`, D is 2 and the features of the backward direction come second; else D is 1.
/// States are h (D num_layers, N, R) and c (D num_layers, N, H), the directions of layer 0 first,
/// and without N if x has no batch. An undefined state means zeros.
///
/// A batch of sequences of different lengths is padded to T elements, and `lengths` (i64 or i32,
/// (N), on the CPU) says how many elements of each count. Outputs after them are 0, the last state
/// is that of a sequence's own last element, and the backward direction begins there. That is what
/// PyTorch computes for a packed sequence; the values of the padding do not matter.
///
/// Parameters are weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 and weight_hr_l0, then those
/// of the backward direction with the suffix _reverse, then layer 1, all drawn from U(-1/sqrt(H),
/// 1/sqrt(H)). One bias would be enough, but PyTorch's files have both. Throws ShapeError for other
/// shapes, empty sequences and lengths outside 1 … T, and Error for a dropout outside [0, 1] and
/// for options of other classes.
///
/// Under Autocast, the products run in the scope's type. States and output keep x's dtype, because
/// they are sums over all steps.
struct Recurrent : Module {
  std::int64_t input_size, hidden_size;
  RecurrentOptions options;
  std::vector<RecurrentWeights> weights;  // of layer 0, of its backward direction, of layer 1, …

  Tensor forward(const Tensor& x) override { return run(x, {}, {}).output; }
  void visit(Visitor& v) override;
  std::string extra_repr() const override;
  std::int64_t multiply_adds(const Tensor& x, const Tensor&) const override;

 protected:
  Recurrent(const char* type, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
            const RecurrentOptions& options);
  LSTMOutput run(const Tensor& x, const LSTMState& first, const Tensor& lengths);
  /// The operator() of those without a c.
  RNNOutput called(const Tensor& x, const RNNState& first, const Tensor& lengths);

 private:
  /// The part of the gates that depends only on the input, for all steps: (T, N, G H).
  virtual Tensor project(const Tensor& x, const RecurrentWeights& w) const = 0;
  virtual LSTMState step(const Tensor& projected, const LSTMState& before,
                         const RecurrentWeights& w) const = 0;
  void check(const Tensor& x, const LSTMState& first, const Tensor& lengths) const;
  Tensor direction(const Tensor& x, const Tensors& is_inside, const RecurrentWeights& w,
                   bool backwards, LSTMState& state) const;
  std::int64_t output_size() const {
    return options.proj_size > 0 ? options.proj_size : hidden_size;
  }

  const char* type_;
  bool has_cell_;
};

struct PadSequenceOptions {
  bool batch_first = false;
  double padding_value = 0;
};
/// Sequences (L_i, …) of different lengths as one tensor (T, N, …), or (N, T, …) with batch_first,
/// where T is the longest; shorter ones end with padding_value. With `lengths` of a recurrent layer
/// it takes the place of PyTorch's packed sequences. Agrees with torch.nn.utils.rnn.pad_sequence.
Tensor pad_sequence(const Tensors& sequences, PadSequenceOptions options = {});

/// h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it. Agrees with torch.nn.RNN.
struct RNN : Recurrent {
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("RNN", 1, input_size, hidden_size, options) {}
  using Module::operator();
  RNNOutput operator()(const Tensor& x, const RNNState& first, const Tensor& lengths = {});
  /// With the tensor of the state, as in PyTorch.
  template <std::same_as<Tensor> T>
  RNNOutput operator()(const Tensor& x, const T& h, const Tensor& lengths = {}) {
    return (*this)(x, RNNState{h}, lengths);
  }

 private:
  Tensor project(const Tensor& x, const RecurrentWeights& w) const override;
  LSTMState step(const Tensor& projected, const LSTMState& before,
                 const RecurrentWeights& w) const override;
};

/// i, f, o = sigmoid and g = tanh of W_ih x + b_ih + W_hh h + b_hh, in the order i, f, g, o;
/// c = f c + i g; h = o tanh(c), or W_hr (o tanh(c)) with a proj_size, which must be smaller than
/// hidden_size. Agrees with torch.nn.LSTM.
///
///   nn::LSTM lstm(10, 20, {.num_layers = 2});
///   Tensor y = lstm(x);
///   auto [z, state] = lstm(x, {.h = h0, .c = c0});
///   auto [padded, last] = lstm(batch, {}, rd::tensor<std::int64_t>({5, 3, 1}));  // lengths
struct LSTM : Recurrent {
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("LSTM", 4, input_size, hidden_size, options) {}
  using Module::operator();
  LSTMOutput operator()(const Tensor& x, const LSTMState& first, const Tensor& lengths = {});

 private:
  Tensor project(const Tensor& x, const RecurrentWeights& w) const override;
  LSTMState step(const Tensor& projected, const LSTMState& before,
                 const RecurrentWeights& w) const override;
};

using GRUState = RNNState;
using GRUOutput = RNNOutput;

/// r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), in
/// the order r, z, n; h = (1 - z) n + z h. Agrees with torch.nn.GRU.
struct GRU : Recurrent {
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("GRU", 3, input_size, hidden_size, options) {}
  using Module::operator();
  GRUOutput operator()(const Tensor& x, const GRUState& first, const Tensor& lengths = {});
  /// With the tensor of the state, as in PyTorch.
  template <std::same_as<Tensor> T>
  GRUOutput operator()(const Tensor& x, const T& h, const Tensor& lengths = {}) {
    return (*this)(x, GRUState{h}, lengths);
  }

 private:
  Tensor project(const Tensor& x, const RecurrentWeights& w) const override;
  LSTMState step(const Tensor& projected, const LSTMState& before,
                 const RecurrentWeights& w) const override;
};

struct RecurrentCellOptions {
  bool bias = true;
  RNNNonlinearity nonlinearity = RNNNonlinearity::tanh;  // RNNCell only
};

/// The base of the cells, which are one step of one layer: x (N, input_size) and states (N,
/// hidden_size), or both without N. An undefined state means zeros. Parameters are weight_ih,
/// weight_hh, bias_ih and bias_hh, as in Recurrent. Throws ShapeError for other shapes.
struct RecurrentCell : Module {
  std::int64_t input_size, hidden_size;
  RecurrentCellOptions options;
  RecurrentWeights weights;

  /// The new h, from a state of zeros.
  Tensor forward(const Tensor& x) override { return run(x, {}).h; }
  void visit(Visitor& v) override;
  std::string extra_repr() const override;
  std::int64_t multiply_adds(const Tensor& x, const Tensor&) const override;

 protected:
  RecurrentCell(const char* type, std::int64_t gates, std::int64_t input_size,
                std::int64_t hidden_size, const RecurrentCellOptions& options);
  LSTMState run(const Tensor& x, const LSTMState& before);
  /// The operator() of those without a c.
  Tensor called(const Tensor& x, const Tensor& h);

 private:
  virtual LSTMState step(const Tensor& x, const LSTMState& before) const = 0;

  const char* type_;
};

/// Agrees with torch.nn.RNNCell.
struct RNNCell : RecurrentCell {
  RNNCell(std::int64_t input_size, std::int64_t hidden_size,
          const RecurrentCellOptions& options = {})
      : RecurrentCell("RNNCell", 1, input_size, hidden_size, options) {}
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& h) { return called(x, h); }

 private:
  LSTMState step(const Tensor& x, const LSTMState& before) const override;
};

/// `LSTMState after = cell(x, before)`. Agrees with torch.nn.LSTMCell.
struct LSTMCell : RecurrentCell {
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size,
           const RecurrentCellOptions& options = {})
      : RecurrentCell("LSTMCell", 4, input_size, hidden_size, options) {}
  using Module::operator();
  LSTMState operator()(const Tensor& x, const LSTMState& before);

 private:
  LSTMState step(const Tensor& x, const LSTMState& before) const override;
};

/// Agrees with torch.nn.GRUCell.
struct GRUCell : RecurrentCell {
  GRUCell(std::int64_t input_size, std::int64_t hidden_size,
          const RecurrentCellOptions& options = {})
      : RecurrentCell("GRUCell", 3, input_size, hidden_size, options) {}
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& h) { return called(x, h); }

 private:
  LSTMState step(const Tensor& x, const LSTMState& before) const override;
};

}  // namespace rondo::nn
