// Element-wise kernels: fill, copy, unary, binary, where, rotate.
//
// Every loop is a StridedLoop whose rows are split into blocks of `row_block` elements. A block is
// loaded into the compute type, computed by an ISA kernel on dense memory, and stored. Each of
// these three short loops vectorises, for any dtypes and strides. Dense rows of a compute type or
// of bf16 need no load and store: they are computed in place, and as a whole.

#include <cmath>
#include <cstring>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/copy_bytes.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/packed_matmul.h"
#include "tensor/cpu/strided.h"
#include "tensor/cpu/transpose.h"

namespace rondo::cpu {
namespace {

/// A row block of C: the tensor's own memory if it is dense and of type C, otherwise a copy.
template <class C>
const C* dense_block(const Tensor& x, const char* at, std::int64_t step, std::int64_t n,
                     C* buffer) {
  if (x.dtype() == dtype_of<C> && step == static_cast<std::int64_t>(sizeof(C)))
    return reinterpret_cast<const C*>(at);
  load_row(x.dtype(), at, step, n, buffer);
  return buffer;
}

/// The same, but an element that is repeated along the row is used where it is.
template <class C>
struct Operand {
  const C* data;
  std::int64_t step;  // 1, or 0 for one number

  Operand(const Tensor& x, const char* at, std::int64_t step, std::int64_t n, C* buffer)
      : data(x.dtype() == dtype_of<C> && step == 0 ? reinterpret_cast<const C*>(at)
                                                   : dense_block(x, at, step, n, buffer)),
        step(reinterpret_cast<const char*>(data) == at && step == 0 && n > 1 ? 0 : 1) {}
};

/// The memory in which to compute a row block of y, and how to store it.
template <class C>
class OutputBlock {
 public:
  OutputBlock(const Tensor& y, char* at, std::int64_t step, C* buffer)
      : y_(y), at_(at), step_(step), direct_(y.dtype() == dtype_of<C> && step == sizeof(C)) {
    data = direct_ ? reinterpret_cast<C*>(at) : buffer;
  }
  void store(std::int64_t n) {
    if (!direct_) store_row(y_.dtype(), data, n, at_, step_);
  }
  C* data;

 private:
  const Tensor& y_;
  char* at_;
  std::int64_t step_;
  bool direct_;
};

void call(UnaryOp op, OpParams params, const float* x, float* y, std::int64_t n) {
  kernels().elementwise.unary_f32(op, params, x, y, n);
}
void call(UnaryOp op, OpParams params, const double* x, double* y, std::int64_t n) {
  kernels().elementwise.unary_f64(op, params, x, y, n);
}
void call(UnaryOp op, OpParams params, const std::int64_t* x, std::int64_t* y, std::int64_t n) {
  kernels().elementwise.unary_i64(op, params, x, y, n);
}
template <class C>
void call(BinaryOp op, OpParams params, const Operand<C>& a, const Operand<C>& b, C* y,
          std::int64_t n) {
  const ElementwiseKernels& table = kernels().elementwise;
  const auto kernel = [&] {
    if constexpr (std::is_same_v<C, float>) return table.binary_f32;
    if constexpr (std::is_same_v<C, double>) return table.binary_f64;
    if constexpr (std::is_same_v<C, std::int64_t>) return table.binary_i64;
  }();
  kernel(op, params, a.data, a.step, b.data, b.step, y, n);
}

/// Copies n words from at[0] to at[1].
template <class Word>
void copy_row(std::array<char*, 2> at, std::array<std::int64_t, 2> step, std::int64_t n) {
  constexpr std::int64_t width = sizeof(Word);
  if (step[0] == width && step[1] == width) {
    copy_bytes(at[1], at[0], static_cast<std::size_t>(n * width));
    return;
  }
  if (step[0] == 0 && step[1] == width) {  // a row of an expanded tensor
    std::fill_n(reinterpret_cast<Word*>(at[1]), n, *reinterpret_cast<Word*>(at[0]));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i)
    *reinterpret_cast<Word*>(at[1] + i * step[1]) = *reinterpret_cast<Word*>(at[0] + i * step[0]);
}

template <class C>
void rotate_row(const C* a, const C* b, const C* cosine, const C* sine, C* ya, C* yb,
                std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const C p = a[i], q = b[i];
    ya[i] = p * cosine[i] - q * sine[i];
    yb[i] = q * cosine[i] + p * sine[i];
  }
}

/// y[i] = c[i] ? a[i a_step] : b[i b_step], by a mask of bits: which element is chosen is hard to
/// predict for a branch.
template <std::int64_t a_step, std::int64_t b_step, class Word>
void choose(const std::uint8_t* c, const Word* a, const Word* b, Word* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const Word mask = static_cast<Word>(-static_cast<Word>(c[i] != 0));
    y[i] = static_cast<Word>((a[i * a_step] & mask) | (b[i * b_step] & static_cast<Word>(~mask)));
  }
}
/// The same for dense operands; a or b may be one number.
template <class Word>
void choose_row(const std::uint8_t* c, const Word* a, bool repeats_a, const Word* b, bool repeats_b,
                Word* y, std::int64_t n) {
  if (repeats_a) return repeats_b ? choose<0, 0>(c, a, b, y, n) : choose<0, 1>(c, a, b, y, n);
  repeats_b ? choose<1, 0>(c, a, b, y, n) : choose<1, 1>(c, a, b, y, n);
}

using Byte = std::uint8_t;

/// y = f(a…) for bools, which are bytes of 0 or 1: many times as fast as in i64.
template <std::size_t N, class F>
void on_bytes(const StridedLoop<N>& loop, F f) {
  loop.for_each_row([&](auto at, auto step, std::int64_t n) {
    const auto* a = reinterpret_cast<const Byte*>(at[0]);
    const auto* b = reinterpret_cast<const Byte*>(at[N - 2]);
    auto* y = reinterpret_cast<Byte*>(at[N - 1]);
    if (step[0] == 1 && step[N - 2] == 1 && step[N - 1] == 1) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        y[i * step[N - 1]] = f(a[i * step[0]], b[i * step[N - 2]]);
    }
  });
}

/// Computes the ops of two bools that masks need; false for other ops.
bool of_bools(BinaryOp op, const StridedLoop<3>& loop) {
  switch (op) {
    case BinaryOp::logical_and:
    case BinaryOp::bitwise_and:
      on_bytes(loop, [](Byte a, Byte b) { return static_cast<Byte>(a & b); });
      return true;
    case BinaryOp::logical_or:
    case BinaryOp::bitwise_or:
      on_bytes(loop, [](Byte a, Byte b) { return static_cast<Byte>(a | b); });
      return true;
    case BinaryOp::logical_xor:
    case BinaryOp::bitwise_xor:
    case BinaryOp::ne:
      on_bytes(loop, [](Byte a, Byte b) { return static_cast<Byte>(a ^ b); });
      return true;
    case BinaryOp::eq:
      on_bytes(loop, [](Byte a, Byte b) { return static_cast<Byte>(a ^ b ^ 1); });
      return true;
    default:
      return false;
  }
}

/// Splits a row into blocks: f(offset, length).
template <class F>
void in_blocks(std::int64_t n, F f, std::int64_t block = row_block) {
  for (std::int64_t i = 0; i < n; i += block) f(i, std::min(block, n - i));
}

/// Whether rows of x with this step are read and written where they are.
template <class C>
bool is_in_place(const Tensor& x, std::int64_t step) {
  return x.dtype() == dtype_of<C> && step == static_cast<std::int64_t>(sizeof(C));
}
bool is_bf16(const Tensor& x, std::int64_t step) {
  return x.dtype() == bf16 && step == static_cast<std::int64_t>(sizeof(Bf16Bits));
}
bool is_one_bf16(const Tensor& x, std::int64_t step) { return x.dtype() == bf16 && step == 0; }

}  // namespace

// Reads the settings from the environment here, before any parallel region and whatever is computed
// first. So an error for a wrong RONDO_ISA or RONDO_CONV is thrown where the caller can catch it.
CpuBackend::CpuBackend() {
  kernels();
  conv_algorithms();
  packed_matmul::enabled();
}

CpuBackend& CpuBackend::instance() {
  static CpuBackend backend;
  return backend;
}

Allocator& CpuBackend::allocator() { return CachingAllocator::instance(); }

void CpuBackend::do_fill(const Tensor& y, Scalar value) {
  StridedLoop<1> loop({&y});
  const std::int64_t width = size_of(y.dtype());
  visit_compute_type(y.dtype(), [&]<class C>() {
    C block[row_block];
    const bool truth = y.dtype() == DType::boolean;
    const C v = truth ? C(value.cast<bool>()) : value.cast<C>();
    std::fill_n(block, row_block, v);
    const bool zero =
        v == C(0) && !std::signbit(static_cast<double>(v));  // zero bits in every dtype
    loop.for_each_row([&](auto at, auto step, std::int64_t n) {
      if (zero && step[0] == width) {
        std::memset(at[0], 0, static_cast<std::size_t>(n * width));
        return;
      }
      in_blocks(n, [&](std::int64_t i, std::int64_t length) {
        store_row(y.dtype(), block, length, at[0] + i * step[0], step[0]);
      });
    });
  });
}

void CpuBackend::do_copy(const Tensor& x, const Tensor& y) {
  if (copy_transposed(x, y)) return;
  StridedLoop<2> loop({&x, &y});
  if (x.dtype() == y.dtype()) {
    return visit_word(x.dtype(), [&]<class Word>() {
      loop.for_each_row([](auto at, auto step, std::int64_t n) { copy_row<Word>(at, step, n); });
    });
  }
  visit_compute_type(conversion_dtype(x.dtype(), y.dtype()), [&]<class C>() {
    loop.for_each_row([&](auto at, auto step, std::int64_t n) {
      in_blocks(n, [&](std::int64_t i, std::int64_t length) {
        C buffer[row_block];
        char* out = at[1] + i * step[1];
        OutputBlock<C> to(y, out, step[1], buffer);
        const C* from = dense_block(x, at[0] + i * step[0], step[0], length, to.data);
        if (from != to.data) {
          store_row(y.dtype(), from, length, out, step[1]);
        } else {
          to.store(length);
        }
      });
    });
  });
}

void CpuBackend::do_unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) {
  StridedLoop<2> loop({&x, &y});
  if (op == UnaryOp::logical_not && x.dtype() == boolean && y.dtype() == boolean)
    return on_bytes(loop, [](Byte a, Byte) { return static_cast<Byte>(a ^ 1); });
  visit_compute_type(x.dtype(), [&]<class C>() {
    loop.for_each_row([&](auto at, auto step, std::int64_t n) {
      if (is_bf16(x, step[0]) && is_bf16(y, step[1]))
        return kernels().elementwise.unary_bf16(op, params,
                                                reinterpret_cast<const Bf16Bits*>(at[0]),
                                                reinterpret_cast<Bf16Bits*>(at[1]), n);
      if (is_in_place<C>(x, step[0]) && is_in_place<C>(y, step[1]))
        return call(op, params, reinterpret_cast<const C*>(at[0]), reinterpret_cast<C*>(at[1]), n);
      in_blocks(n, [&](std::int64_t i, std::int64_t length) {
        C buffer_x[row_block], buffer_y[row_block];
        const C* from = dense_block(x, at[0] + i * step[0], step[0], length, buffer_x);
        OutputBlock<C> to(y, at[1] + i * step[1], step[1], buffer_y);
        call(op, params, from, to.data, length);
        to.store(length);
      });
    });
  });
}

void CpuBackend::do_binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                           OpParams params) {
  StridedLoop<3> loop({&a, &b, &y});
  if (a.dtype() == boolean && b.dtype() == boolean && y.dtype() == boolean && of_bools(op, loop))
    return;
  visit_compute_type(b.dtype() == f64 ? f64 : a.dtype(), [&]<class C>() {
    loop.for_each_row([&](auto at, auto step, std::int64_t n) {
      const bool a_is_one = is_one_bf16(a, step[0]), b_is_one = is_one_bf16(b, step[1]);
      if ((a_is_one || is_bf16(a, step[0])) && (b_is_one || is_bf16(b, step[1])) &&
          is_bf16(y, step[2]))
        return kernels().elementwise.binary_bf16(
            op, params, reinterpret_cast<const Bf16Bits*>(at[0]), a_is_one ? 0 : 1,
            reinterpret_cast<const Bf16Bits*>(at[1]), b_is_one ? 0 : 1,
            reinterpret_cast<Bf16Bits*>(at[2]), n);
      const auto stays = [&](const Tensor& x, std::size_t k) {
        return is_in_place<C>(x, step[k]) || (x.dtype() == dtype_of<C> && step[k] == 0);
      };
      const bool whole = stays(a, 0) && stays(b, 1) && is_in_place<C>(y, step[2]);
      const auto compute = [&](std::int64_t i, std::int64_t length) {
        C buffer_a[row_block], buffer_b[row_block], buffer_y[row_block];
        const Operand<C> left(a, at[0] + i * step[0], step[0], length, buffer_a);
        const Operand<C> right(b, at[1] + i * step[1], step[1], length, buffer_b);
        OutputBlock<C> to(y, at[2] + i * step[2], step[2], buffer_y);
        call(op, params, left, right, to.data, length);
        to.store(length);
      };
      in_blocks(n, compute, whole ? n : row_block);
    });
  });
}

void CpuBackend::do_where(const Tensor& condition, const Tensor& a, const Tensor& b,
                          const Tensor& y) {
  StridedLoop<4> loop({&condition, &a, &b, &y});
  visit_word(y.dtype(), [&]<class Word>() {
    loop.for_each_row([&](auto at, auto step, std::int64_t n) {
      constexpr std::int64_t width = sizeof(Word);
      const auto dense = [&](std::size_t k) { return step[k] == width || step[k] == 0; };
      if (step[0] == 1 && dense(1) && dense(2) && step[3] == width)
        return choose_row(reinterpret_cast<const std::uint8_t*>(at[0]),
                          reinterpret_cast<const Word*>(at[1]), step[1] == 0,
                          reinterpret_cast<const Word*>(at[2]), step[2] == 0,
                          reinterpret_cast<Word*>(at[3]), n);
      for (std::int64_t i = 0; i < n; ++i) {
        const bool first = *reinterpret_cast<const bool*>(at[0] + i * step[0]);
        const char* from = first ? at[1] + i * step[1] : at[2] + i * step[2];
        *reinterpret_cast<Word*>(at[3] + i * step[3]) = *reinterpret_cast<const Word*>(from);
      }
    });
  });
}

void CpuBackend::do_rotate(const Tensor& a, const Tensor& b, const Tensor& cosine,
                           const Tensor& sine, const Tensor& ya, const Tensor& yb) {
  StridedLoop<6> loop({&a, &b, &cosine, &sine, &ya, &yb});
  visit_float_compute(ya.dtype(), "rotate", [&]<class C>() {
    loop.for_each_row([&](auto at, auto step, std::int64_t n) {
      in_blocks(n, [&](std::int64_t i, std::int64_t length) {
        C buffers[6][row_block];
        const auto in = [&](const Tensor& x, std::size_t k) {
          return dense_block(x, at[k] + i * step[k], step[k], length, buffers[k]);
        };
        OutputBlock<C> to_a(ya, at[4] + i * step[4], step[4], buffers[4]);
        OutputBlock<C> to_b(yb, at[5] + i * step[5], step[5], buffers[5]);
        rotate_row(in(a, 0), in(b, 1), in(cosine, 2), in(sine, 3), to_a.data, to_b.data, length);
        to_a.store(length);
        to_b.store(length);
      });
    });
  });
}

}  // namespace rondo::cpu
