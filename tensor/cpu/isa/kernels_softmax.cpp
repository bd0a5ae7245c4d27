// Softmax kernels for one dense line of f32 or bf16, and cross-entropy's of f32; compiled once for
// each instruction set (table.h). Lines of f64 use the loops of tensor/cpu/softmax.cpp.
#include "tensor/cpu/isa/bf16.h"
#include "tensor/cpu/isa/vec.h"
#include "tensor/cpu/isa/vector_math.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

/// Elements of a line that go through one loop and then, from the first-level cache, through the
/// next.
constexpr Index chunk = 16 * math_block;

/// Calls f(offset, values, count, valid). count is a multiple of math_block; valid is how many of
/// these elements the line has. If the line ends within a block, values is a copy padded with -inf,
/// whose exp is 0.
template <class S, class F>
inline void in_chunks(const S* x, Index n, F f) {
  const Index whole = n - n % math_block;
  for (Index i = 0; i < whole; i += chunk) {
    const Index count = whole - i < chunk ? whole - i : chunk;
    f(i, x + i, count, count);
  }
  if (whole == n) return;
  S rest[math_block], least;
  narrow(-__builtin_inff(), least);
  for (Index k = 0; k < math_block; ++k) rest[k] = whole + k < n ? x[whole + k] : least;
  f(whole, rest, math_block, n - whole);
}

/// max x, ignoring NaNs: they reappear in the sum.
template <class S>
inline float top_of(const S* x, Index n) {
  constexpr int side_by_side = math_block / lanes;
  Vec top[side_by_side];
  for (Vec& v : top) v = Vec{} - __builtin_inff();
  in_chunks(x, n, [&](Index, const S* numbers, Index count, Index) {
    for (Index k = 0; k < count; k += math_block)
      for (int u = 0; u < side_by_side; ++u) {
        const Vec v = load(numbers + k + u * lanes);
        top[u] = v > top[u] ? v : top[u];
      }
  });
  float most = top[0][0];
  for (const Vec& v : top)
    for (int k = 0; k < lanes; ++k) most = v[k] > most ? v[k] : most;
  return most;
}

/// Σ exp(x_i - top), and with `kept` y_i = exp(x_i - top).
template <bool kept, class S>
inline double exp_sum(const S* x, Index n, float top, float* y) {
  double sum = 0;
  in_chunks(x, n, [&](Index i, const S* numbers, Index count, Index real) {
    float buffer[chunk];
    float* e = kept && real == count ? y + i : buffer;
#pragma omp simd
    for (Index k = 0; k < count; ++k) e[k] = exp_or_0(widen(numbers[k]) - top);
#pragma omp simd reduction(+ : sum)
    for (Index k = 0; k < count; ++k) sum += static_cast<double>(e[k]);
    if (kept && e == buffer)
      __builtin_memcpy(y + i, e, static_cast<std::size_t>(real) * sizeof(float));
  });
  return sum;
}

template <class S>
LogSumExp log_sum_exp(const S* x, Index n) {
  const float top = top_of(x, n);
  return {top, __builtin_log(exp_sum<false>(x, n, top, nullptr))};
}

template <class S>
void softmax(const S* x, Index n, float* powers, S* y) {
  const float scale = static_cast<float>(1 / exp_sum<true>(x, n, top_of(x, n), powers));
#pragma omp simd
  for (Index i = 0; i < n; ++i) narrow(powers[i] * scale, y[i]);
}

template <class S>
void log_softmax(const S* x, Index n, S* y) {
  const LogSumExp sum = log_sum_exp(x, n);
  const float log_sum = static_cast<float>(sum.log_sum);
#pragma omp simd
  for (Index i = 0; i < n; ++i) narrow(widen(x[i]) - sum.top - log_sum, y[i]);
}

template <class S>
void softmax_gradient(const S* dy, const S* y, Index n, S* dx) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(widen(dy[i]) * widen(y[i]));
  const float shift = static_cast<float>(sum);
#pragma omp simd
  for (Index i = 0; i < n; ++i) narrow(widen(y[i]) * (widen(dy[i]) - shift), dx[i]);
}

template <class S>
void log_softmax_gradient(const S* dy, const S* y, Index n, S* dx) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(widen(dy[i]));
  const float all = static_cast<float>(sum);
  in_chunks(y, n, [&](Index i, const S* numbers, Index count, Index real) {
    float e[chunk];
#pragma omp simd
    for (Index k = 0; k < count; ++k) e[k] = exp_or_0(widen(numbers[k]));
#pragma omp simd
    for (Index k = 0; k < real; ++k) narrow(widen(dy[i + k]) - e[k] * all, dx[i + k]);
  });
}

void cross_entropy_gradient(const float* x, Index n, float top, float log_sum, float share,
                            float weight, float* dx) {
  in_chunks(x, n, [&](Index i, const float* numbers, Index count, Index real) {
    float buffer[chunk];
    float* d = real == count ? dx + i : buffer;
#pragma omp simd
    for (Index k = 0; k < count; ++k)
      d[k] = (exp_or_0(numbers[k] - top - log_sum) - share) * weight;
    if (d == buffer) __builtin_memcpy(dx + i, d, static_cast<std::size_t>(real) * sizeof(float));
  });
}

}  // namespace

extern const SoftmaxKernels softmax_lines;
const SoftmaxKernels softmax_lines{
    {softmax<float>, log_softmax<float>, softmax_gradient<float>, log_softmax_gradient<float>},
    {softmax<Bf16Bits>, log_softmax<Bf16Bits>, softmax_gradient<Bf16Bits>,
     log_softmax_gradient<Bf16Bits>},
    log_sum_exp<float>,
    cross_entropy_gradient};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
