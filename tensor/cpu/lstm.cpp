// An LSTM's steps, f32: one matrix product a step by oneDNN, and one pass over the gates by the
// kernels of this machine's instruction set.

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu {
namespace {

/// y = a · w for many a (rows, k) with the same w (k, n), whose elements are `down` and `across`
/// apart. w is brought once into the layout that oneDNN's kernel reads: in a single product it
/// would do so each time, which takes as long as the product itself if there are few rows.
class ProductsWith {
 public:
  ProductsWith(const Tensor& w, std::int64_t rows, std::int64_t k, std::int64_t n,
               std::int64_t down, std::int64_t across)
      : primitive_(matmul({.dtype = f32,
                           .batch = 1,
                           .a_batch = 1,
                           .c_batch = 1,
                           .m = rows,
                           .n = n,
                           .k = k,
                           .a_strides = {rows * k, k, 1},
                           .c_strides = {},
                           .y_strides = {rows * n, n, 1},
                           .bias = false})),
        weights_(primitive_->weights.get_size(), CachingAllocator::instance()) {
    using dnnl::memory;
    reorder(memory_of(memory::desc({k, n}, memory::data_type::f32, memory::dims{down, across}),
                      w.data_ptr()),
            memory_of(primitive_->weights, weights_.data()));
  }
  void operator()(float* a, float* y) const {
    execute(*primitive_, {{DNNL_ARG_SRC, memory_of(primitive_->source, a)},
                          {DNNL_ARG_WEIGHTS, memory_of(primitive_->weights, weights_.data())},
                          {DNNL_ARG_DST, memory_of(primitive_->destination, y)}});
  }

 private:
  std::shared_ptr<const Primitive> primitive_;
  Storage weights_;
};

}  // namespace

bool CpuBackend::has_lstm(const Tensor& x) const { return x.dtype() == f32; }

void CpuBackend::do_lstm(const Tensor& of_x, const Tensor& w, bool reverse, const Tensor& gates,
                         const Tensor& h, const Tensor& c) {
  const std::int64_t steps = of_x.size(0), sequences = of_x.size(1), n = w.size(1),
                     state = sequences * n;
  const ProductsWith to_gates(w, sequences, n, 4 * n, 1, n);  // w transposed
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = reverse ? steps - 1 - i : i, before = reverse ? t + 1 : t,
                       after = reverse ? t : t + 1;
    const float* x = of_x.data_ptr<float>() + t * 4 * state;
    float* gate = gates.data_ptr<float>() + t * 4 * state;
    float *cell = c.data_ptr<float>(), *out = h.data_ptr<float>();
    to_gates(out + before * state, gate);
    parallel_for(sequences, 4 * state, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        kernels().lstm.forward(x + r * 4 * n, n, gate + r * 4 * n, cell + before * state + r * n,
                               cell + after * state + r * n, out + after * state + r * n);
    });
  }
}

void CpuBackend::do_lstm_backward(const Tensor& w, const Tensor& gates, const Tensor& c,
                                  bool reverse, const Tensor& dy, const Tensor& dgates,
                                  const Tensor& dh, const Tensor& dc) {
  const std::int64_t steps = gates.size(0), sequences = gates.size(1), n = w.size(1),
                     state = sequences * n;
  const ProductsWith to_state(w, sequences, 4 * n, n, n, 1);
  for (std::int64_t i = steps - 1; i >= 0; --i) {
    const std::int64_t t = reverse ? steps - 1 - i : i, before = reverse ? t + 1 : t,
                       after = reverse ? t : t + 1;
    const float *gate = gates.data_ptr<float>() + t * 4 * state, *cell = c.data_ptr<float>(),
                *of_step = dy.defined() ? dy.data_ptr<float>() + t * state : nullptr;
    float *dgate = dgates.data_ptr<float>() + t * 4 * state, *dstate = dh.data_ptr<float>(),
          *dcell = dc.data_ptr<float>();
    parallel_for(sequences, 4 * state, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        float* sum = dstate + r * n;
        for (std::int64_t k = 0; of_step != nullptr && k < n; ++k) sum[k] += of_step[r * n + k];
        kernels().lstm.backward(gate + r * 4 * n, n, cell + before * state + r * n,
                                cell + after * state + r * n, sum, dcell + r * n,
                                dgate + r * 4 * n);
      }
    });
    to_state(dgate, dstate);
  }
}

}  // namespace rondo::cpu
