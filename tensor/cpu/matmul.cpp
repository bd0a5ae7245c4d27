// Matrix products: oneDNN or rondo's own packed products for f32 and bf16; f16 is converted to f32;
// plain loops for the rest.

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/packed_matmul.h"
#include "tensor/cpu/reference.h"
#include "tensor/cpu/strided.h"
#include "tensor/matrix.h"
#include "tensor/scratch.h"

namespace rondo::cpu {
namespace {

/// Whether x consists of rows or columns with gaps between their elements, or between them.
bool has_gaps(const Tensor& x) {
  if (x.size(1) != 1 && x.size(2) != 1) return false;
  const std::int64_t n = x.size(1) * x.size(2);
  return (n > 1 && x.stride(x.size(1) == 1 ? 2 : 1) != 1) ||
         (x.size(0) > 1 && x.stride(0) != 0 && x.stride(0) != n);
}

/// Whether matrices of a batch do not interleave, unless all of them lie within one row of the
/// first: oneDNN wants each stride to be at least the product of the next smaller one and its size.
bool is_nested(const Tensor& x) {
  if (x.size(0) == 1 || x.stride(0) == 0) return true;
  const MatrixLayout layout(x);
  const std::int64_t rows = x.size(layout.row_major ? 1 : 2),
                     columns = x.size(layout.row_major ? 2 : 1);
  return layout.batch >= rows * layout.leading ||
         (layout.batch >= columns && layout.leading >= x.size(0) * layout.batch);
}

/// x in a form that oneDNN can read: row- or column-major, and nested. A copy if x is not, and also
/// for rows and columns with gaps: oneDNN 3.7 treats some of them as dense with AVX-512, and 3.12
/// with AVX2.
Tensor readable_matrix(const Tensor& x) {
  const bool is_readable = (is_row_major(x) || is_column_major(x)) && !has_gaps(x) && is_nested(x);
  return is_readable ? x : dense_copy(x);
}

/// The strides of a readable tensor, correctly ordered even if a size is 1.
void describe(const Tensor& x, std::int64_t (&strides)[3]) {
  const MatrixLayout layout(x);
  strides[1] = layout.row_major ? layout.leading : 1;
  strides[2] = layout.row_major ? 1 : layout.leading;
  // One matrix shared by the whole batch is described as a batch of one.
  strides[0] = layout.batch != 0 ? layout.batch : layout.leading * x.size(layout.row_major ? 1 : 2);
}

/// One row times a matrix with contiguous columns, such as a layer's weights: oneDNN would pack
/// them first.
bool is_matvec(const Tensor& a, const Tensor& c, const Tensor& y) {
  return y.dtype() == f32 && y.size(0) == 1 && y.size(1) == 1 && a.stride(2) == 1 &&
         c.stride(1) == 1 && (c.size(2) == 1 || c.stride(2) >= c.size(1)) && y.is_contiguous();
}

void matvec(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y) {
  const auto *x = a.data_ptr<float>(), *w = c.data_ptr<float>();
  const auto* b = bias.defined() ? bias.data_ptr<float>() : nullptr;
  auto* out = y.data_ptr<float>();
  const std::int64_t n = c.size(1), stride = c.stride(2);
  parallel_for(c.size(2), c.numel(), [&](std::int64_t begin, std::int64_t end) {
    kernels().matvec(w + begin * stride, stride, x, end - begin, n, out + begin);
    for (std::int64_t i = begin; b != nullptr && i < end; ++i) out[i] += b[i];
  });
}

void onednn_matmul(const MatmulProblem& problem, const Tensor& a, const Tensor& c,
                   const Tensor& bias, const Tensor& y) {
  const auto prepared = cpu::matmul(problem);
  const Primitive& primitive = *prepared;
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, memory_of(primitive.source, a.data_ptr())},
      {DNNL_ARG_WEIGHTS, memory_of(primitive.weights, c.data_ptr())},
      {DNNL_ARG_DST, memory_of(primitive.destination, y.data_ptr())}};
  if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, memory_of(primitive.bias, bias.data_ptr()));
  execute(primitive, std::move(arguments));
}

}  // namespace

void CpuBackend::do_matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y,
                           Activation activation) {
  if (y.numel() == 0) return;
  if (a.size(2) == 0) {
    if (bias.defined()) {
      do_copy(bias.broadcast_view(y.shape()), y);
    } else {
      do_fill(y, 0);
    }
    return apply_activation(activation, y);
  }
  if (is_floating(y.dtype()) && y.dtype() != f64 && !has_dtype(y.dtype())) {
    Tensor result = Tensor::empty(y.shape());
    do_matmul(as_f32(a), as_f32(c), as_f32(bias), result, activation);
    return do_copy(result, y);
  }
  if (!has_dtype(y.dtype())) {
    reference::matmul(a, c, bias, y);
    return apply_activation(activation, y);
  }

  const Tensor b = dense(bias);
  if (is_matvec(a, c, y)) {
    matvec(a, c, b, y);
    return apply_activation(activation, y);
  }
  // If both batches repeat one matrix, oneDNN needs at least one of them as a real batch.
  const bool repeats_both = y.size(0) > 1 && a.stride(0) == 0 && c.stride(0) == 0;
  const Tensor left = repeats_both ? dense_copy(a) : readable_matrix(a), right = readable_matrix(c);
  Tensor result = y.is_contiguous() ? y : Tensor::empty(y.shape(), y.options());
  auto batches = [](const Tensor& x) { return x.stride(0) == 0 ? std::int64_t{1} : x.size(0); };
  MatmulProblem problem{.dtype = y.dtype(),
                        .batch = y.size(0),
                        .a_batch = batches(left),
                        .c_batch = batches(right),
                        .m = y.size(1),
                        .n = y.size(2),
                        .k = left.size(2),
                        .a_strides = {},
                        .c_strides = {},
                        .y_strides = {},
                        .bias = b.defined()};
  describe(left, problem.a_strides);
  describe(right, problem.c_strides);
  describe(result, problem.y_strides);
  if (packed_matmul::suits(problem)) {
    packed_matmul::matmul(left, right, b, result);
  } else {
    onednn_matmul(problem, left, right, b, result);
  }
  // Not with oneDNN's post-op, whose relu turns NaN into 0: a diverged model would look healthy.
  apply_activation(activation, result);
  if (!result.is_same(y)) do_copy(result, y);
}

}  // namespace rondo::cpu
