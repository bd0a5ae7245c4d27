// Element-wise loops over dense rows; compiled once for each instruction set (table.h).
#include "tensor/cpu/isa/bf16.h"
#include "tensor/cpu/isa/vec.h"
#include "tensor/cpu/isa/vector_math.h"
#include "tensor/functors.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

// Each op has a function of its own (noinline): one function with all loops takes longer to
// compile.
//
// If an op calls a function of vector_math.h, the remainder of a row of floats or of bf16 goes
// through the same loop as a whole block, padded with ones.

constexpr bool plain = false, calls = true;  // the table's second column
#define RONDO_ROW(name, maths, ...) maths,
constexpr bool unary_calls[] = {RONDO_UNARY_OPS(RONDO_ROW)};
constexpr bool binary_calls[] = {RONDO_BINARY_OPS(RONDO_ROW)};
#undef RONDO_ROW
bool calls_function(UnaryOp op) { return unary_calls[static_cast<std::size_t>(op)]; }
bool calls_function(BinaryOp op) { return binary_calls[static_cast<std::size_t>(op)]; }

/// The type in which elements of type S are computed.
template <class S>
using Compute = std::conditional_t<std::is_same_v<S, Bf16Bits>, float, S>;

inline double widen(double v) { return v; }
inline std::int64_t widen(std::int64_t v) { return v; }
inline void narrow(double v, double& y) { y = v; }
inline void narrow(std::int64_t v, std::int64_t& y) { y = v; }

template <class S>
S one() {
  S result;
  narrow(Compute<S>(1), result);
  return result;
}

/// A vector of bf16 has twice as many elements as one of floats.
template <class S>
constexpr Index block_of = std::is_same_v<S, Bf16Bits> ? 2 * math_block : math_block;

/// The number of elements (out of n) that go into a padded block.
template <class S, class Op>
Index rest_of(Op op, Index n) {
  return std::is_same_v<Compute<S>, float> && calls_function(op) ? n % block_of<S> : 0;
}

template <class S>
void unary(UnaryOp op, OpParams params, const S* x, S* y, std::int64_t n) {
  const std::int64_t rest = rest_of<S>(op, n);
  const auto run = [=](auto f) __attribute__((noinline)) {
    // A call that is not inlined would keep the loop from using vector instructions.
    const auto loop = [f](const S* from, S* to, std::int64_t count) __attribute__((flatten)) {
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) narrow(f(widen(from[i])), to[i]);
    };
    loop(x, y, n - rest);
    if (rest != 0) {
      S block[block_of<S>];
      for (std::int64_t i = 0; i < block_of<S>; ++i)
        block[i] = i < rest ? x[n - rest + i] : one<S>();
      loop(block, block, block_of<S>);
      for (std::int64_t i = 0; i < rest; ++i) y[n - rest + i] = block[i];
    }
  };
  visit_unary<Compute<S>>(op, params, run);
}

// The ops of remainders call the C library for each number. Where no quotient is too large, which
// is checked for a block at a time, they need not, if the instruction set has fused operations.

#if defined(__FMA__) || defined(__aarch64__)
constexpr bool has_fma = true;
#else
constexpr bool has_fma = false;
#endif

template <class S>
bool all_near(const S* a, Index a_step, const S* b, Index b_step, Index n) {
  int far = 0;
#pragma omp simd reduction(| : far)
  for (Index i = 0; i < n; ++i)
    far |= functors::has_near_quotient(widen(a[i * a_step]), widen(b[i * b_step])) ? 0 : 1;
  return far == 0;
}

/// Calls f with the function of op for near quotients.
template <class T, class F>
void visit_near(BinaryOp op, F f) {
  using functors::NearFmod;
  if (op == BinaryOp::fmod) return f(NearFmod{});
  if (op == BinaryOp::remainder)
    return f([](T a, T b) { return functors::remainder<NearFmod>(a, b); });
  f([](T a, T b) { return functors::floor_divide<NearFmod>(a, b); });
}

/// An operand with step 0 is one number. It is repeated in a block, which the loop then reads for
/// every block of the other operand.
template <class S>
void binary(BinaryOp op, OpParams params, const S* a, Index a_step, const S* b, Index b_step, S* y,
            Index n) {
  const Index rest = rest_of<S>(op, n);
  constexpr Index repeats = 4 * block_of<S>;
  const Index length = a_step != 0 && b_step != 0 ? n : repeats;
  const auto run = [=](auto f) __attribute__((noinline)) {
    const auto loop = [f](const S* left, const S* right, S* to, Index count)
        __attribute__((flatten)) {
#pragma omp simd
      for (Index i = 0; i < count; ++i) narrow(f(widen(left[i]), widen(right[i])), to[i]);
    };
    S left[repeats], right[repeats];
    if (a_step == 0) std::fill_n(left, repeats, *a);
    if (b_step == 0) std::fill_n(right, repeats, *b);
    for (Index i = 0; i < n - rest; i += length)
      loop(a_step == 0 ? left : a + i, b_step == 0 ? right : b + i, y + i,
           std::min(length, n - rest - i));
    if (rest != 0) {
      for (Index i = 0; i < block_of<S>; ++i) {
        left[i] = i < rest ? a[(n - rest + i) * a_step] : one<S>();
        right[i] = i < rest ? b[(n - rest + i) * b_step] : one<S>();
      }
      loop(left, right, left, block_of<S>);
      for (Index i = 0; i < rest; ++i) y[n - rest + i] = left[i];
    }
  };
  if constexpr (std::is_floating_point_v<Compute<S>> && has_fma) {
    const bool is_remainder =
        op == BinaryOp::fmod || op == BinaryOp::remainder || op == BinaryOp::floor_divide;
    constexpr Index block = 1024;
    if (is_remainder && n > block) {
      for (Index i = 0; i < n; i += block)
        binary(op, params, a + i * a_step, a_step, b + i * b_step, b_step, y + i,
               std::min(block, n - i));
      return;
    }
    if (is_remainder && all_near(a, a_step, b, b_step, n)) return visit_near<Compute<S>>(op, run);
  }
  visit_binary<Compute<S>>(op, params, run);
}

void from_bf16(const Bf16Bits* x, float* y, std::int64_t n) {
  Index i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, load(x + i));
  for (; i < n; ++i) y[i] = widen(x[i]);
}

void to_bf16(const float* x, Bf16Bits* y, std::int64_t n) {
  Index i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, load(x + i));
  for (; i < n; ++i) narrow(x[i], y[i]);
}

void copy(const char* from, char* to, std::int64_t bytes) {
  constexpr Index width = sizeof(Vec);
  const auto move = [&](Index i) {
    Vec v;
    __builtin_memcpy(&v, from + i, sizeof v);
    __builtin_memcpy(to + i, &v, sizeof v);
  };
  Index i = 0;
#pragma GCC unroll 4
  for (; i + width <= bytes; i += width) move(i);
  if (i < bytes) move(bytes - width);  // copies some bytes a second time
}

}  // namespace

extern const ElementwiseKernels elementwise;
const ElementwiseKernels elementwise{unary<float>,
                                     unary<double>,
                                     unary<std::int64_t>,
                                     unary<Bf16Bits>,
                                     binary<float>,
                                     binary<double>,
                                     binary<std::int64_t>,
                                     binary<Bf16Bits>,
                                     from_bf16,
                                     to_bf16,
                                     copy};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
