#include "autograd/ops/matmul.h"

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/fused.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

void check_operands(const Tensor& a, const Tensor& b, const char* op) {
  require<DTypeError>(a.dtype() == b.dtype(), op, ": ", a.dtype(), " times ", b.dtype(),
                      how_to_convert(a.dtype(), b.dtype()));
  require_one_device(op, {a, b});
}

/// A view (1, size(first), size(second)) of a matrix, without a place on the tape.
Tensor as_batch_of_one(const Tensor& m, std::int64_t first, std::int64_t second) {
  return m.as_view({1, m.size(first), m.size(second)}, {0, m.stride(first), m.stride(second)},
                   m.storage_offset());
}

/// y[i] = a[i] b[i] for 3-dim tensors of the same batch size. dA = dY B^T, dB = A^T dY.
struct BmmBackward final : Node {
  SavedTensor a, b;
  BmmBackward(const Tensor& a, const Tensor& b)
      : a(b.requires_grad() ? a : Tensor()), b(a.requires_grad() ? b : Tensor()) {}
  const char* name() const override { return "bmm"; }
  Tensors backward(const Tensors& dy) override {
    return {wants(0) ? bmm(dy[0], transpose(b.get(*this), 1, 2)) : Tensor(),
            wants(1) ? bmm(transpose(a.get(*this), 1, 2), dy[0]) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

/// y = x W^T + bias for rows x. dX = dY W, dW = dY^T X, dbias = sum of dY's rows.
struct LinearBackward final : Node {
  SavedTensor x, weight;
  LinearBackward(const Tensor& x, const Tensor& weight)
      : x(weight.requires_grad() ? x : Tensor()), weight(x.requires_grad() ? weight : Tensor()) {}
  const char* name() const override { return "linear"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor& g = dy[0];
    auto product = [](const Tensor& a, const Tensor& b) {
      return reshape(bmm(unsqueeze(a, 0), unsqueeze(b, 0)), {a.size(0), b.size(1)});
    };
    const Tensor x = wants(1) ? this->x.get(*this) : Tensor();
    const bool wants_bias = edges.size() > 2 && wants(2);
    Tensors gradients(edges.size());
    if (wants(0)) gradients[0] = product(g, weight.get(*this));
    if (wants(1) && wants_bias && backend(g).has_matmul_and_row_sums(g.dtype()) &&
        !any_requires_grad(std::initializer_list<Tensor>{g, x})) {
      gradients[1] = Tensor::empty({g.size(1), x.size(1)}, g.options());
      gradients[2] = Tensor::empty({g.size(1)}, g.options());
      backend(g).matmul_and_row_sums(as_batch_of_one(g, 1, 0), as_batch_of_one(x, 0, 1),
                                     as_batch_of_one(gradients[1], 0, 1), gradients[2]);
      return gradients;
    }
    if (wants(1)) gradients[1] = product(transpose(g, 0, 1), x);
    if (wants_bias) gradients[2] = sum(g, {0});
    return gradients;
  }
  void release_saved() override {
    x.reset();
    weight.reset();
  }
};

}  // namespace

Tensor detail::as_batch(const Tensor& x, const Dims& batch) {
  Dims sizes = batch;
  sizes.push_back(x.size(-2));
  sizes.push_back(x.size(-1));
  return reshape(expand(x, sizes), {numel_of(batch), x.size(-2), x.size(-1)});
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  const OpName op("bmm");
  if (const Casts cast{AutocastOp::bmm, a}) return bmm(cast(a), cast(b));
  require<ShapeError>(
      a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1),
      "bmm: shapes ", a.shape(), " and ", b.shape(),
      " do not multiply; expected (B, n, k) and (B, k, m)");
  check_operands(a, b, "bmm");
  Tensor y = Tensor::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  backend(y).matmul(a, b, {}, y);
  return record<BmmBackward>({a, b}, y, a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  const OpRange op("matmul");
  if (const Casts cast{AutocastOp::matmul, a}) return matmul(cast(a), cast(b));
  require<ShapeError>(a.dim() >= 1 && b.dim() >= 1,
                      "matmul: a 0-dim tensor has no product; use mul");
  check_operands(a, b, "matmul");
  // A vector is a row on the left and a column on the right; its dimension is removed at the end.
  Tensor left = a.dim() == 1 ? unsqueeze(a, 0) : a;
  Tensor right = b.dim() == 1 ? unsqueeze(b, 1) : b;
  require<ShapeError>(left.size(-1) == right.size(-2), "matmul: shapes ", a.shape(), " and ",
                      b.shape(), " do not multiply: rows of ", left.size(-1), " with columns of ",
                      right.size(-2));
  Dims left_batch(left.shape().begin(), left.shape().end() - 2);
  Dims right_batch(right.shape().begin(), right.shape().end() - 2);
  Dims sizes = broadcast_shapes(left_batch, right_batch);
  Tensor y;
  if (right.dim() == 2 && left.dim() > 2) {  // one right matrix for the whole batch: a single tall
                                             // product
    std::int64_t rows = left.numel() / std::max<std::int64_t>(left.size(-1), 1);
    if (left.size(-1) == 0) rows = numel_of(left_batch) * left.size(-2);
    y = bmm(reshape(left, {1, rows, left.size(-1)}), unsqueeze(right, 0));
  } else {
    y = bmm(detail::as_batch(left, sizes), detail::as_batch(right, sizes));
  }
  if (a.dim() > 1) sizes.push_back(left.size(-2));
  if (b.dim() > 1) sizes.push_back(right.size(-1));
  return reshape(y, sizes);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const OpRange op("linear");
  if (const Casts cast{AutocastOp::linear, x})
    return linear(cast(x), cast(weight), cast(bias), activation);
  if (weight.defined() && weight.dim() == 1) {
    require<ShapeError>(!bias.defined(), "linear: a weight of one dimension, ", weight.shape(),
                        ", takes no bias");
    require<ShapeError>(x.dim() >= 1 && x.size(-1) == weight.size(0), "linear: input ", x.shape(),
                        " does not fit a weight of shape ", weight.shape(), " (in)");
    return detail::activated(matmul(x, weight), activation);
  }
  require<ShapeError>(weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1),
                      "linear: input ", x.shape(), " does not fit a weight of shape ",
                      weight.shape(), " (out, in)");
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)),
                      "linear: bias ", bias.defined() ? bias.shape() : Dims{},
                      " for a weight of shape ", weight.shape());
  check_operands(x, weight, "linear");
  if (bias.defined()) check_operands(x, bias, "linear");
  Dims sizes = x.shape();
  sizes[x.dim() - 1] = weight.size(0);
  Tensor rows =
      x.dim() == 2
          ? x
          : reshape(x, {numel_of(Dims(x.shape().begin(), x.shape().end() - 1)), x.size(-1)});
  Tensor y = Tensor::empty({rows.size(0), weight.size(0)}, x.options());
  // gelu's gradient needs its input, which the fused product does not keep.
  const bool gelu_later = activation == Activation::gelu_tanh &&
                          any_requires_grad(std::initializer_list<Tensor>{x, weight, bias});
  backend(y).matmul(as_batch_of_one(rows, 0, 1), as_batch_of_one(weight, 1, 0), bias,
                    as_batch_of_one(y, 0, 1), gelu_later ? Activation::none : activation);
  y = bias.defined() ? record<LinearBackward>({rows, weight, bias}, y, rows, weight)
                     : record<LinearBackward>({rows, weight}, y, rows, weight);
  if (activation == Activation::relu) y = behind_relu(y);
  if (gelu_later) y = detail::activated(y, activation);
  return x.dim() == 2 ? y : reshape(y, sizes);
}

}  // namespace rondo
