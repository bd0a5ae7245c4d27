// The gates of one sequence in one step of an LSTM, in f32; compiled once for each instruction set
// (table.h). All of a step's element-wise work is done in one pass.
#include <cmath>

#include "tensor/cpu/isa/vec.h"
#include "tensor/cpu/isa/vector_math.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

inline float logistic(float x) { return 1 / (1 + std::exp(-x)); }

/// `count` of a block's elements; the rest are 0 (vector_math.h says why blocks are padded).
struct Block {
  float v[math_block];
  Block() = default;
  Block(const float* x, Index count) {
    for (Index k = 0; k < math_block; ++k) v[k] = k < count ? x[k] : 0;
  }
  void store(float* y, Index count) const {
    for (Index k = 0; k < count; ++k) y[k] = v[k];
  }
};

/// f(first element, elements) for each block of a row.
template <class F>
inline void in_blocks(Index n, F f) {
  const Index whole = n - n % math_block;
  for (Index i = 0; i < whole; i += math_block) f(i, math_block);
  if (whole < n) f(whole, n - whole);
}

void forward(const float* of_x, std::int64_t n, float* gates, const float* c_before, float* c,
             float* h) {
  in_blocks(
      n, [&](Index at, Index count) __attribute__((always_inline)) {
        Block gate[4];
        for (int j = 0; j < 4; ++j) {
          gate[j] = Block(gates + j * n + at, count);
          const Block x(of_x + j * n + at, count);
          for (Index k = 0; k < math_block; ++k) gate[j].v[k] += x.v[k];
        }
        const Block before(c_before + at, count);
        Block cell, out;
#pragma omp simd
        for (Index k = 0; k < math_block; ++k) gate[0].v[k] = logistic(gate[0].v[k]);
#pragma omp simd
        for (Index k = 0; k < math_block; ++k) gate[1].v[k] = logistic(gate[1].v[k]);
#pragma omp simd
        for (Index k = 0; k < math_block; ++k) gate[2].v[k] = std::tanh(gate[2].v[k]);
#pragma omp simd
        for (Index k = 0; k < math_block; ++k) gate[3].v[k] = logistic(gate[3].v[k]);
#pragma omp simd
        for (Index k = 0; k < math_block; ++k) {
          cell.v[k] = multiply_add(gate[1].v[k], before.v[k], gate[0].v[k] * gate[2].v[k]);
          out.v[k] = gate[3].v[k] * std::tanh(cell.v[k]);
        }
        for (int j = 0; j < 4; ++j) gate[j].store(gates + j * n + at, count);
        cell.store(c + at, count);
        out.store(h + at, count);
      });
}

void backward(const float* gates, std::int64_t n, const float* c_before, const float* c,
              const float* dh, float* dc, float* dgates) {
  in_blocks(
      n, [&](Index at, Index count) __attribute__((always_inline)) {
        const Block i(gates + at, count), f(gates + n + at, count), g(gates + 2 * n + at, count),
            o(gates + 3 * n + at, count), before(c_before + at, count), cell(c + at, count),
            dout(dh + at, count), later(dc + at, count);
        Block d[4], earlier;
#pragma omp simd
        for (Index k = 0; k < math_block; ++k) {
          const float t = std::tanh(cell.v[k]);
          const float dcell = multiply_add(dout.v[k] * o.v[k], 1 - t * t, later.v[k]);
          d[0].v[k] = dcell * g.v[k] * i.v[k] * (1 - i.v[k]);
          d[1].v[k] = dcell * before.v[k] * f.v[k] * (1 - f.v[k]);
          d[2].v[k] = dcell * i.v[k] * (1 - g.v[k] * g.v[k]);
          d[3].v[k] = dout.v[k] * t * o.v[k] * (1 - o.v[k]);
          earlier.v[k] = dcell * f.v[k];
        }
        for (int j = 0; j < 4; ++j) d[j].store(dgates + j * n + at, count);
        earlier.store(dc + at, count);
      });
}

}  // namespace

extern const LSTMKernels lstm;
const LSTMKernels lstm{forward, backward};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
