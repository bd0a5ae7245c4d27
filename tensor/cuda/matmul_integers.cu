// Matrix products of integers, which no library supports: one thread for each element. They serve
// for counting and indexing, not for training.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"
#include "tensor/functors.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

/// A batch of matrices, addressed by coordinates.
struct Matrices {
  const char* data;
  DType dtype;
  std::int64_t batch, row, column;  // bytes

  explicit Matrices(const Tensor& x)
      : data(static_cast<const char*>(x.data_ptr())),
        dtype(x.dtype()),
        batch(x.stride(0) * size_of(dtype)),
        row(x.stride(1) * size_of(dtype)),
        column(x.stride(2) * size_of(dtype)) {}
  RONDO_HD std::int64_t get(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return load<std::int64_t>(dtype, data + b * batch + i * row + j * column);
  }
};

struct Multiply {
  Matrices a, c;
  std::int64_t rows, columns, length;
  const char* bias;  // may be null
  std::int64_t bias_step;
  char* y;  // dense
  DType dtype;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns, column = i - row * columns, b = row / rows;
    std::int64_t sum = bias == nullptr ? 0 : load<std::int64_t>(dtype, bias + column * bias_step);
    for (std::int64_t k = 0; k < length; ++k) {
      sum = functors::plus(sum, functors::times(a.get(b, row - b * rows, k), c.get(b, k, column)));
    }
    store(dtype, y + i * size_of(dtype), sum);
  }
};

}  // namespace

void CudaBackend::matmul_integers(const Tensor& a, const Tensor& c, const Tensor& bias,
                                  const Tensor& y) {
  const Tensor out = dense_output(y, MemoryFormat::contiguous);
  const bool has_bias = bias.defined();
  for_each(device_, y.numel(),
           Multiply{Matrices(a), Matrices(c), y.size(1), y.size(2), a.size(2),
                    has_bias ? static_cast<const char*>(bias.data_ptr()) : nullptr,
                    has_bias ? bias.stride(0) * size_of(bias.dtype()) : 0,
                    static_cast<char*>(out.data_ptr()), y.dtype()});
  if (!out.is_same(y)) do_copy(out, y);
}

}  // namespace rondo::cuda
