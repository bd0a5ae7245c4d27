// Batch normalisation's four passes over rows of channels; compiled once for each instruction set
// (table.h). The rows of a channels_last tensor are short (16 to 2048 elements) and many. A plane
// of a contiguous tensor is one channel, whose factors are the same for the whole row.
//
// Why the vectors are explicit: for 16 channels in bf16 the compiler generates half a vector, which
// falls to the remainder loop; and sums that are written to memory after each row wait for each
// other. If a row is a few vectors long, the sums of several rows stay in registers.
#include "tensor/cpu/isa/bf16.h"
#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

// V is Vec, or float for the remainder of a row.
template <class V, class T>
inline V read(const T* p) {
  if constexpr (std::is_same_v<V, Vec>) {
    return load(p);
  } else {
    return widen(*p);
  }
}
template <class T>
inline void write(T* p, Vec v) {
  store(p, v);
}
template <class T>
inline void write(T* p, float v) {
  narrow(v, *p);
}
template <class T, class V>
inline void write(T* p, V v, bool past_caches) {
  if constexpr (std::is_same_v<V, Vec>) {
    if (past_caches) return stream(p, v);
  }
  write(p, v);
}

/// How to find a channel's factor from the position in the row.
struct OneChannel {
  template <class V>
  static V factor(const float* of, Index) {
    return V{} + *of;
  }
};
struct EachChannel {
  template <class V>
  static V factor(const float* of, Index c) {
    return read<V>(of + c);
  }
};

/// Calls body.at<V, Factors>(i, c) for all elements of all rows; i is the index among all elements,
/// c within the row.
template <class Body>
inline void for_rows(Index rows, Index channels, const Body& body) {
  if (channels == 1) {
    Index i = 0;
    for (; i + lanes <= rows; i += lanes) body.template at<Vec, OneChannel>(i, 0);
    for (; i < rows; ++i) body.template at<float, OneChannel>(i, 0);
    return;
  }
  for (Index r = 0; r < rows; ++r) {
    const Index first = r * channels;
    Index c = 0;
    for (; c + lanes <= channels; c += lanes) body.template at<Vec, EachChannel>(first + c, c);
    for (; c < channels; ++c) body.template at<float, EachChannel>(first + c, c);
  }
}

/// The terms that one element, or a vector of elements, adds to the two sums of its channel: a, and
/// a times b.
template <class V>
struct Terms {
  V a, b;
};

/// Rows of V vectors, U rows at a time; the sums stay in registers.
template <int V, int U, class Body>
inline void sum_in_registers(Index rows, const Body& body, float* a, float* b) {
  Vec as[U][V] = {}, bs[U][V] = {};
  auto add = [&](Index row, int u) {
    for (int v = 0; v < V; ++v) {
      const auto t =
          body.template at<Vec, EachChannel>((row * V + v) * lanes, static_cast<Index>(v) * lanes);
      as[u][v] += t.a;
      bs[u][v] = multiply_add(t.a, t.b, bs[u][v]);
    }
  };
  Index r = 0;
  for (; r + U <= rows; r += U)
    for (int u = 0; u < U; ++u) add(r + u, u);
  for (; r < rows; ++r) add(r, 0);
  for (int v = 0; v < V; ++v) {
    for (int u = 1; u < U; ++u) {
      as[0][v] += as[u][v];
      bs[0][v] += bs[u][v];
    }
    store(a + v * lanes, load(a + v * lanes) + as[0][v]);
    store(b + v * lanes, load(b + v * lanes) + bs[0][v]);
  }
}

/// The sums of one channel, along its plane.
template <class Body>
inline void sum_plane(Index length, const Body& body, float* a, float* b) {
  constexpr int side_by_side = 4;
  Vec as[side_by_side] = {}, bs[side_by_side] = {};
  float rest_a = 0, rest_b = 0;
  Index i = 0;
  for (; i + side_by_side * lanes <= length; i += side_by_side * lanes)
    for (int u = 0; u < side_by_side; ++u) {
      const auto t = body.template at<Vec, OneChannel>(i + u * lanes, 0);
      as[u] += t.a;
      bs[u] = multiply_add(t.a, t.b, bs[u]);
    }
  for (; i < length; ++i) {
    const auto t = body.template at<float, OneChannel>(i, 0);
    rest_a += t.a;
    rest_b = multiply_add(t.a, t.b, rest_b);
  }
  const Vec sum_a = (as[0] + as[1]) + (as[2] + as[3]), sum_b = (bs[0] + bs[1]) + (bs[2] + bs[3]);
  for (int k = 0; k < lanes; ++k) {
    rest_a += sum_a[k];
    rest_b += sum_b[k];
  }
  *a += rest_a;
  *b += rest_b;
}

/// Adds the terms of all elements to their channels' sums.
template <class Body>
inline void sum_terms(Index rows, Index channels, const Body& body, float* a, float* b) {
  if (channels == 1) return sum_plane(rows, body, a, b);
  if (channels == lanes) return sum_in_registers<1, 4>(rows, body, a, b);
  if (channels == 2 * lanes) return sum_in_registers<2, 2>(rows, body, a, b);
  if (channels == 4 * lanes) return sum_in_registers<4, 1>(rows, body, a, b);
  for (Index r = 0; r < rows; ++r) {
    auto add = [&]<class V>(Index c, V) {
      const auto t = body.template at<V, EachChannel>(r * channels + c, c);
      write(a + c, read<V>(a + c) + t.a);
      write(b + c, multiply_add(t.a, t.b, read<V>(b + c)));
    };
    Index c = 0;
    for (; c + lanes <= channels; c += lanes) add(c, Vec{});
    for (; c < channels; ++c) add(c, 0.0f);
  }
}

// ---- Forward ----

/// The terms x - shift and its square.
template <class T>
struct MomentTerms {
  const T* x;
  const float* shift;
  template <class V, class Factors>
  Terms<V> at(Index i, Index c) const {
    const V d = read<V>(x + i) - Factors::template factor<V>(shift, c);
    return {d, d};
  }
};

template <class T>
void moments(const T* x, Index rows, Index channels, const float* shift, float* sum,
             float* sum_squares) {
  sum_terms(rows, channels, MomentTerms<T>{x, shift}, sum, sum_squares);
}

/// Up to this value, y of type T becomes 0: bf16 has no smaller positive numbers.
template <class T>
constexpr float largest_zero = std::is_same_v<T, float> ? 0.0f : 0x1p-134f;

enum class ReluKind { none, plain, with_bits };

template <class T, bool has_residual, ReluKind relu>
struct Apply {
  const T *x, *residual;
  T* y;
  std::uint8_t* bits;
  const float *mean, *scale, *offset;
  bool past_caches;
  template <class V, class Factors>
  void at(Index i, Index c) const {
    V v =
        multiply_add(read<V>(x + i) - Factors::template factor<V>(mean, c),
                     Factors::template factor<V>(scale, c), Factors::template factor<V>(offset, c));
    if constexpr (has_residual) v += read<V>(residual + i);
    if constexpr (relu == ReluKind::with_bits && std::is_same_v<V, Vec>)
      store_bits(bits, i, v, largest_zero<T>);
    write(y + i, relu != ReluKind::none ? (v < 0 ? V{} : v) : v, past_caches);
  }
};

template <class T>
void apply(const T* x, const T* residual, T* y, std::uint8_t* bits, Index rows, Index channels,
           const float* mean, const float* scale, const float* offset, bool relu,
           bool past_caches) {
  auto run = [&]<ReluKind kind>() {
    if (residual != nullptr)
      for_rows(rows, channels,
               Apply<T, true, kind>{x, residual, y, bits, mean, scale, offset, past_caches});
    else
      for_rows(rows, channels,
               Apply<T, false, kind>{x, residual, y, bits, mean, scale, offset, past_caches});
    if (past_caches) stream_end();
  };
  if (!relu) return run.template operator()<ReluKind::none>();
  if (bits == nullptr) return run.template operator()<ReluKind::plain>();
  run.template operator()<ReluKind::with_bits>();
}

// ---- Backward ----

enum class MaskSource { none, from_bits, from_y, from_x };

/// The gradient before the relu: dy where the relu's input or output is above 0, otherwise 0.
template <class T, MaskSource mask>
struct Gradient {
  const T *dy, *x;
  ReluMask<T> relu;
  template <class V, class Factors>
  V at(Index i, Index c) const {
    const V g = read<V>(dy + i);
    if constexpr (mask == MaskSource::none) return g;
    if constexpr (mask == MaskSource::from_bits && std::is_same_v<V, Vec>)
      return where_bits(relu.bits, i, g);
    V v{};
    if constexpr (mask == MaskSource::from_y) {
      v = read<V>(relu.y + i);
    } else {
      v = multiply_add(read<V>(x + i) - Factors::template factor<V>(relu.mean, c),
                       Factors::template factor<V>(relu.scale, c),
                       Factors::template factor<V>(relu.offset, c));
    }
    return v <= 0 ? V{} : g;
  }
};

/// Calls f.operator()<mask>() with the kind of mask.
template <class T, class F>
void visit_mask(const ReluMask<T>& relu, F f) {
  if (relu.bits != nullptr) return f.template operator()<MaskSource::from_bits>();
  if (relu.y != nullptr) return f.template operator()<MaskSource::from_y>();
  if (relu.scale != nullptr) return f.template operator()<MaskSource::from_x>();
  f.template operator()<MaskSource::none>();
}

/// The terms g and g (x - mean).
template <class T, MaskSource mask>
struct GradientTerms {
  Gradient<T, mask> gradient;
  const float* mean;
  template <class V, class Factors>
  Terms<V> at(Index i, Index c) const {
    const V g = gradient.template at<V, Factors>(i, c);
    return {g, read<V>(gradient.x + i) - Factors::template factor<V>(mean, c)};
  }
};

template <class T>
void backward_sums(const T* dy, const T* x, const ReluMask<T>& relu, Index rows, Index channels,
                   const float* mean, float* sum_g, float* sum_gx) {
  visit_mask(relu, [&]<MaskSource mask>() {
    sum_terms(rows, channels, GradientTerms<T, mask>{{dy, x, relu}, mean}, sum_g, sum_gx);
  });
}

/// dx = g a + (x - mean) b + d.
template <class T, MaskSource mask, bool has_residual>
struct ApplyGradient {
  Gradient<T, mask> gradient;
  T *dx, *dresidual;
  const float *mean, *a, *b, *d;
  bool past_caches;
  template <class V, class Factors>
  void at(Index i, Index c) const {
    const V g = gradient.template at<V, Factors>(i, c);
    if constexpr (has_residual) write(dresidual + i, g, past_caches);
    const V shift =
        multiply_add(read<V>(gradient.x + i) - Factors::template factor<V>(mean, c),
                     Factors::template factor<V>(b, c), Factors::template factor<V>(d, c));
    const V v = multiply_add(g, Factors::template factor<V>(a, c), shift);
    write(dx + i, v, past_caches);
  }
};

template <class T>
void backward_apply(const T* dy, const T* x, const ReluMask<T>& relu, T* dx, T* dresidual,
                    Index rows, Index channels, const float* mean, const float* a, const float* b,
                    const float* d, bool past_caches) {
  visit_mask(relu, [&]<MaskSource mask>() {
    const Gradient<T, mask> gradient{dy, x, relu};
    if (dresidual != nullptr)
      for_rows(rows, channels,
               ApplyGradient<T, mask, true>{gradient, dx, dresidual, mean, a, b, d, past_caches});
    else
      for_rows(rows, channels,
               ApplyGradient<T, mask, false>{gradient, dx, nullptr, mean, a, b, d, past_caches});
    if (past_caches) stream_end();
  });
}

}  // namespace

extern const BatchNormKernels<float> batch_norm;
const BatchNormKernels<float> batch_norm{moments<float>, apply<float>, backward_sums<float>,
                                         backward_apply<float>};
extern const BatchNormKernels<Bf16Bits> batch_norm_bf16;
const BatchNormKernels<Bf16Bits> batch_norm_bf16{moments<Bf16Bits>, apply<Bf16Bits>,
                                                 backward_sums<Bf16Bits>, backward_apply<Bf16Bits>};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
