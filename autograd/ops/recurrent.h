#pragma once
// The LSTM over a whole sequence, for nn::LSTM.

#include "autograd/ops/arithmetic.h"

namespace rondo {

/// One layer of an LSTM in one direction: returns h of every step (T, N, H) and the last c (N, H).
/// of_x (T, N, 4 H) is the part of the gates that depends only on the input, biases included; h0
/// and c0 (N, H); weight_hh (4 H, H). With the gates i, f, g, o in this order,
///
///   i, f, o = sigmoid and g = tanh of of_x[t] + W_hh h;  c = f c + i g;  h = o tanh(c).
///
/// With `reverse` the steps run from T - 1 down to 0. It is one node of the tape, so that the
/// gradient of weight_hh is one matrix product over all steps instead of a sum of T products.
/// Throws ShapeError for other shapes and DTypeError for integers.
Tensors lstm_layer(const Tensor& of_x, const Tensor& h0, const Tensor& c0, const Tensor& weight_hh,
                   bool reverse = false);

namespace detail {
struct LSTMStep {
  Tensor i, f, g, o, tanh_c, c, h;
};
/// One step, of_x (N, 4 H), in recorded ops.
LSTMStep lstm_step(const Tensor& of_x, const Tensor& h, const Tensor& c, const Tensor& weight_hh);
}  // namespace detail

}  // namespace rondo
