#include "dist/reduce.h"

#include <algorithm>
#include <ostream>

#include "dist/combine_rule.h"
#include "dist/transport.h"
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

// f(quotient), quotient(x) = x / divisor. Vectors are divided at a tenth of the rate at which they
// are multiplied, which would halve the speed of an average in the cache; and multiplying by the
// inverse of a power of two, which most numbers of ranks are, gives the same bits.
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

// The sums of a block are formed in the first-level cache, in the dtype of one addition; the last
// addition divides as well.
template <ReduceOp op, class T>
void combine_all_as(std::span<void* const> into, std::span<const void* const> from,
                    std::int64_t count, int divisor) {
  using Sum = std::conditional_t<is_small_float<T>, float, T>;
  constexpr std::int64_t block = 1024;
  alignas(64) Sum sums[block];
  auto add = [&](const T* x, std::int64_t n, auto quotient) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sums[i] = quotient(combined<op>(sums[i], Sum(x[i])));
  };
  const auto whole = [](Sum x) { return x; };
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t n = std::min(block, count - first);
    auto part = [&](std::size_t r) { return static_cast<const T*>(from[r]) + first; };
    const T* x = part(0);
    for (std::int64_t i = 0; i < n; ++i) sums[i] = Sum(x[i]);
    for (std::size_t r = 1; r < from.size(); ++r) {
      if constexpr (op == ReduceOp::avg && is_float<T>) {
        if (r + 1 == from.size()) {
          divided_by<Sum>(divisor, [&](auto quotient) { add(part(r), n, quotient); });
          continue;
        }
      }
      add(part(r), n, whole);
    }
    for (void* target : into) {
      T* y = static_cast<T*>(target) + first;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = T(sums[i]);
    }
  }
}

/// f.operator()<op>() for the op that is meant.
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
  require<DTypeError>(op != ReduceOp::avg || is_floating(dtype), "all_reduce: no avg of ", dtype,
                      ", which would have to be rounded; use sum");
  require<DTypeError>((op != ReduceOp::band && op != ReduceOp::bor) || !is_floating(dtype),
                      "all_reduce: no ", op, " of ", dtype, ", whose bits are no number's");
}

}  // namespace rondo::dist
