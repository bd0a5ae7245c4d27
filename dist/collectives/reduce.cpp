#include "dist/collectives/reduce.h"

#include <algorithm>
#include <ostream>

#include "dist/collectives/combine_rule.h"
#include "dist/transports/transport.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

template <class T, class F>
void each(void* into, const void* from, std::int64_t count, F f) {
  auto* __restrict a = static_cast<T*>(into);
  const auto* __restrict b = static_cast<const T*>(from);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) a[i] = f(a[i], b[i]);
}

// Calls f(quotient) with quotient(x) = x / divisor. Vector division is ten times slower than
// multiplication, and would halve the speed of an average in the cache. If the divisor is a power
// of two, as most numbers of ranks are, multiplying by its inverse gives the same bits.
template <class W, class F>
void divided_by(int divisor, F f) {
  const W d = static_cast<W>(divisor), inverse = W(1) / d;
  if ((divisor & (divisor - 1)) == 0) {
    f([inverse](W x) { return x * inverse; });
  } else {
    f(DividedBy<W>{d});
  }
}

template <ReduceOp op, class T>
void combine_as(void* into, const void* from, std::int64_t n) {
  each<T>(into, from, n, [](T a, T b) { return combined<op>(a, b); });
}

// Forms the sums of one block at a time, so that they stay in the first-level cache, in the dtype
// of an addition. For two ranks neither operand is copied first. The last addition also divides.
template <ReduceOp op, class T>
void combine_all_as(std::span<void* const> into, std::span<const void* const> from,
                    std::int64_t count, int divisor) {
  using Sum = std::conditional_t<is_small_float<T>, float, T>;
  constexpr std::int64_t block = 1024;
  alignas(64) Sum sums[block];
  const auto add = [](const auto* a, const T* b, auto* y, std::int64_t n, auto quotient) {
    using Y = std::remove_pointer_t<decltype(y)>;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = Y(quotient(combined<op>(static_cast<Sum>(a[i]), static_cast<Sum>(b[i]))));
  };
  const auto whole = [](Sum x) { return x; };
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t n = std::min(block, count - first);
    const auto part = [&](std::size_t r) { return static_cast<const T*>(from[r]) + first; };
    const auto target = [&](std::size_t t) { return static_cast<T*>(into[t]) + first; };
    const auto add_last = [&](const auto* a, const T* b) {
      if constexpr (op == ReduceOp::avg && is_float<T>) {
        divided_by<Sum>(divisor, [&](auto quotient) { add(a, b, target(0), n, quotient); });
      } else {
        add(a, b, target(0), n, whole);
      }
    };
    if (from.size() == 1) {
      if (target(0) != part(0)) std::copy_n(part(0), n, target(0));
    } else if (from.size() == 2) {
      add_last(part(0), part(1));
    } else {
      add(part(0), part(1), sums, n, whole);
      for (std::size_t r = 2; r + 1 < from.size(); ++r) add(sums, part(r), sums, n, whole);
      add_last(sums, part(from.size() - 1));
    }
    for (std::size_t t = 1; t < into.size(); ++t) std::copy_n(target(0), n, target(t));
  }
}

/// Calls f.operator()<op>().
template <class F>
void visit_op(ReduceOp op, F f) {
  switch (op) {
    case ReduceOp::sum:
      return f.template operator()<ReduceOp::sum>();
    case ReduceOp::avg:
      return f.template operator()<ReduceOp::avg>();
    case ReduceOp::prod:
      return f.template operator()<ReduceOp::prod>();
    case ReduceOp::min:
      return f.template operator()<ReduceOp::min>();
    case ReduceOp::max:
      return f.template operator()<ReduceOp::max>();
    case ReduceOp::band:
      return f.template operator()<ReduceOp::band>();
    case ReduceOp::bor:
      return f.template operator()<ReduceOp::bor>();
  }
}

}  // namespace

const char* name_of(ReduceOp op) {
  static constexpr const char* names[] = {"sum", "avg", "min", "max", "prod", "band", "bor"};
  return names[static_cast<int>(op)];
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << name_of(op); }

void combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op) {
  visit_dtype(dtype, [&]<class T>() {
    visit_op(op, [&]<ReduceOp meant>() { combine_as<meant, T>(into, from, count); });
  });
}

void combine_all(std::span<void* const> into, std::span<const void* const> from, std::int64_t count,
                 DType dtype, ReduceOp op, int divisor) {
  visit_dtype(dtype, [&]<class T>() {
    visit_op(op, [&]<ReduceOp meant>() { combine_all_as<meant, T>(into, from, count, divisor); });
  });
}

void combine_and_divide(void* into, const void* from, std::int64_t count, DType dtype,
                        int divisor) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float<T>) {
      using W = typename Working<T>::type;
      divided_by<W>(divisor, [&](auto quotient) {
        each<T>(into, from, count, [quotient](T a, T b) { return averaged(a, b, quotient); });
      });
    }
  });
}

void divide(void* data, std::int64_t count, DType dtype, int divisor) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float<T>) {
      using W = typename Working<T>::type;
      auto* a = static_cast<T*>(data);
      divided_by<W>(divisor, [&](auto quotient) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) a[i] = T(quotient(W(a[i])));
      });
    }
  });
}

void Arithmetic::combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op,
                         int divisor) {
  if (divisor == 1) return dist::combine(into, from, count, dtype, op);
  combine_and_divide(into, from, count, dtype, divisor);
}

void check_reducible(DType dtype, ReduceOp op) {
  require<DTypeError>(op != ReduceOp::avg || is_floating(dtype), "all_reduce: avg of ", dtype,
                      " is not supported, since it would have to be rounded; use sum");
  require<DTypeError>((op != ReduceOp::band && op != ReduceOp::bor) || !is_floating(dtype),
                      "all_reduce: ", op, " of ", dtype,
                      " is not supported; bitwise operations need integers or bool");
}

}  // namespace rondo::dist
