// The transforms of Winograd convolution (tensor/cpu/conv/winograd.h explains the algebra);
// compiled once for each instruction set (table.h).
//
// Loops over pixels might not vectorise well, so this file uses explicit vectors of the instruction
// set's width (GCC's and Clang's vector types, not intrinsics). A lane is a channel, and the 36
// values of a transformed tile are 36 vectors. A transform applies the same one-dimensional map
// twice, down the columns and along the rows; in between, the tile is in the first-level cache. `m`
// is the number of outputs in each dimension: 4, or 2 with points 0, ±1, ∞.
#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

// The interpolation points 0, ±a, ±b, ∞ (winograd.h explains the choice), and the constants that
// follow: a² + b² = 5/2, a b = 1.
constexpr float a = 0.70710678118654752440f, b = 1.41421356237309504880f;
constexpr float scale_a = -2.f / 3, scale_b = 1.f / 6;  // 1 / (2a²(a² - b²)), 1 / (2b²(b² - a²))

/// Bᵀ: maps m + 2 values of x to as many points. `at(i)` reads, `put(i, v)` writes.
template <int m, class At, class Put>
inline void input_points(At at, Put put) {
  if constexpr (m == 2) {
    const Vec d1 = at(1), d2 = at(2);
    put(0, at(0) - d2);
    put(1, d2 + d1);
    put(2, d2 - d1);
    put(3, d1 - at(3));
  } else {
    const Vec d0 = at(0), d1 = at(1), d2 = at(2), d3 = at(3), d4 = at(4), d5 = at(5);
    const Vec even_a = multiply_add(-2.f, d2, d4), odd_a = multiply_add(a, d3, (-2.f * a) * d1);
    const Vec even_b = multiply_add(-.5f, d2, d4), odd_b = multiply_add(b, d3, (-.5f * b) * d1);
    put(0, multiply_add(-2.5f, d2, d0) + d4);
    put(1, even_a + odd_a);
    put(2, even_a - odd_a);
    put(3, even_b + odd_b);
    put(4, even_b - odd_b);
    put(5, multiply_add(-2.5f, d3, d1) + d5);
  }
}

/// Aᵀ: maps m + 2 points to m values of y.
template <int m, class At, class Put>
inline void output_values(At at, Put put) {
  if constexpr (m == 2) {
    const Vec m1 = at(1), m2 = at(2);
    put(0, at(0) + m1 + m2);
    put(1, m1 - m2 - at(3));
  } else {
    const Vec m1 = at(1), m2 = at(2), m3 = at(3), m4 = at(4);
    const Vec even_a = m1 + m2, odd_a = m1 - m2, even_b = m3 + m4, odd_b = m3 - m4;
    put(0, at(0) + even_a + even_b);
    put(1, multiply_add(a, odd_a, b * odd_b));
    put(2, multiply_add(2.f, even_b, .5f * even_a));
    put(3, multiply_add(2.f * b, odd_b, multiply_add(.5f * a, odd_a, at(5))));
  }
}

/// A, the transpose of Aᵀ: maps 4 values of dy to the 6 points.
template <class At, class Put>
inline void gradient_points(At at, Put put) {
  const Vec y0 = at(0), y1 = at(1), y2 = at(2), y3 = at(3);
  const Vec even_a = multiply_add(.5f, y2, y0), odd_a = multiply_add(a, y1, (.5f * a) * y3);
  const Vec even_b = multiply_add(2.f, y2, y0), odd_b = multiply_add(b, y1, (2.f * b) * y3);
  put(0, y0);
  put(1, even_a + odd_a);
  put(2, even_a - odd_a);
  put(3, even_b + odd_b);
  put(4, even_b - odd_b);
  put(5, y3);
}

/// G: maps 3 weights to the m + 2 points.
template <int m, class At, class Put>
inline void weight_points(At at, Put put) {
  const Vec g0 = at(0), g1 = at(1), g2 = at(2);
  if constexpr (m == 2) {
    put(0, g0);
    const Vec even = .5f * (g0 + g2);
    put(1, multiply_add(.5f, g1, even));
    put(2, multiply_add(-.5f, g1, even));
    put(3, g2);
  } else {
    const Vec even_a = multiply_add(.5f * scale_a, g2, scale_a * g0);
    const Vec even_b = multiply_add(2.f * scale_b, g2, scale_b * g0);
    put(0, g0);
    put(1, multiply_add(scale_a * a, g1, even_a));
    put(2, multiply_add(-scale_a * a, g1, even_a));
    put(3, multiply_add(scale_b * b, g1, even_b));
    put(4, multiply_add(-scale_b * b, g1, even_b));
    put(5, g2);
  }
}

/// Gᵀ: maps 6 points to the gradients of 3 weights.
template <class At, class Put>
inline void weight_gradients(At at, Put put) {
  const Vec m1 = at(1), m2 = at(2), m3 = at(3), m4 = at(4);
  const Vec even_a = scale_a * (m1 + m2), odd_a = scale_a * (m1 - m2);
  const Vec even_b = scale_b * (m3 + m4), odd_b = scale_b * (m3 - m4);
  put(0, at(0) + even_a + even_b);
  put(1, multiply_add(a, odd_a, b * odd_b));
  put(2, multiply_add(2.f, even_b, multiply_add(.5f, even_a, at(5))));
}

// The layout of a block of tiles between the transforms (winograd.h): for each vector of channels
// and each point, the tiles, followed by one unused vector, so that the 36 points do not compete
// for the same cache sets. These distances are constants, so they are encoded in the instructions.
constexpr Index tiles = winograd_tiles, point = (tiles + 1) * lanes;
template <int m>
constexpr Index group = Index{m + 2} * (m + 2) * point;

/// Bᵀ x B of the pixels at `corner`; `has(i, j)` tells which of them exist.
template <int m, class T, class Has>
inline void input_vector(const T* corner, Index row, Index pixel, float* points, Has has) {
  constexpr int n = m + 2;
  Vec t[n][n];
#pragma GCC unroll 6
  for (int j = 0; j < n; ++j)
    input_points<m>([&](int i) { return has(i, j) ? load(corner + i * row + j * pixel) : Vec{}; },
                    [&](int i, Vec v) { t[i][j] = v; });
#pragma GCC unroll 6
  for (int i = 0; i < n; ++i)
    input_points<m>([&](int j) { return t[i][j]; },
                    [&](int j, Vec v) { store(points + (n * i + j) * point, v); });
}

template <int m, class T>
void input(const void* x, const WinogradPlane& plane, Index top, Index left, float* points) {
  constexpr int n = m + 2;
  const Index channels = plane.channels, row = plane.width * channels;
  const T* corner = static_cast<const T*>(x) + top * row + left * channels;
  if (top >= 0 && left >= 0 && top + n <= plane.height && left + n <= plane.width) {
    for (Index c = 0; c < channels; c += lanes, points += group<m>)
      input_vector<m>(corner + c, row, channels, points, [](int, int) { return true; });
    return;
  }
  const Index bottom = plane.height - top, right = plane.width - left;
  bool exists[n][n];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) exists[i][j] = i >= -top && i < bottom && j >= -left && j < right;
  for (Index c = 0; c < channels; c += lanes, points += group<m>)
    input_vector<m>(corner + c, row, channels, points, [&](int i, int j) { return exists[i][j]; });
}

/// Writes Aᵀ M A + offset to those of the m x m pixels at `corner` that exist.
template <int m, class T, class Has>
inline void output_vector(const float* points, Vec offset, T* corner, Index row, Index pixel,
                          Has has) {
  constexpr int n = m + 2;
  Vec t[m][n];
#pragma GCC unroll 6
  for (int j = 0; j < n; ++j)
    output_values<m>([&](int i) { return load(points + (n * i + j) * point); },
                     [&](int i, Vec v) { t[i][j] = v; });
#pragma GCC unroll 4
  for (int i = 0; i < m; ++i)
    output_values<m>([&](int j) { return t[i][j]; },
                     [&](int j, Vec v) {
                       if (has(i, j)) store(corner + i * row + j * pixel, v + offset);
                     });
}

template <int m, class T>
void output(const float* points, const WinogradPlane& plane, Index top, Index left,
            const float* bias, void* y) {
  const Index channels = plane.channels, row = plane.width * channels;
  const Index rows = plane.height - top, columns = plane.width - left;
  T* corner = static_cast<T*>(y) + top * row + left * channels;
  for (Index c = 0; c < channels; c += lanes, points += group<m>) {
    const Vec offset = bias ? load(bias + c) : Vec{};
    if (rows >= m && columns >= m) {
      output_vector<m>(points, offset, corner + c, row, channels, [](int, int) { return true; });
    } else {
      output_vector<m>(points, offset, corner + c, row, channels,
                       [&](int i, int j) { return i < rows && j < columns; });
    }
  }
}

/// A dy Aᵀ of the 4x4 pixels at `corner`; `has(i, j)` tells which of them exist.
template <class T, class Has>
inline void gradient_vector(const T* corner, Index row, Index pixel, float* points, Has has) {
  Vec t[6][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j)
    gradient_points([&](int i) { return has(i, j) ? load(corner + i * row + j * pixel) : Vec{}; },
                    [&](int i, Vec v) { t[i][j] = v; });
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i)
    gradient_points([&](int j) { return t[i][j]; },
                    [&](int j, Vec v) { store(points + (6 * i + j) * point, v); });
}

template <class T>
void gradient(const void* dy, const WinogradPlane& plane, Index top, Index left, float* points) {
  const Index channels = plane.channels, row = plane.width * channels;
  const Index rows = plane.height - top, columns = plane.width - left;
  const T* corner = static_cast<const T*>(dy) + top * row + left * channels;
  for (Index c = 0; c < channels; c += lanes, points += group<4>) {
    if (rows >= 4 && columns >= 4) {
      gradient_vector(corner + c, row, channels, points, [](int, int) { return true; });
    } else {
      gradient_vector(corner + c, row, channels, points,
                      [&](int i, int j) { return i < rows && j < columns; });
    }
  }
}

/// Transforms all 9 weights of `lanes` filters to their points.
template <int m>
void weight(const float* w, Index lane_stride, bool turned, Index count, float* points,
            Index point_stride) {
  constexpr int n = m + 2;
  for (Index k = 0; k < count; k += lanes) {
    float g[9][lanes];
    for (int lane = 0; lane < lanes; ++lane) {
      const float* filter = w + (k + lane) * lane_stride;
      for (int i = 0; i < 9; ++i) g[i][lane] = filter[turned ? 8 - i : i];
    }
    Vec t[n][3];
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j)
      weight_points<m>([&](int i) { return load(g[3 * i + j]); },
                       [&](int i, Vec v) { t[i][j] = v; });
#pragma GCC unroll 6
    for (int i = 0; i < n; ++i)
      weight_points<m>([&](int j) { return t[i][j]; },
                       [&](int j, Vec v) { store(points + (n * i + j) * point_stride + k, v); });
  }
}

void weight_gradient(const float* points, Index point_stride, Index count, float* dw,
                     Index lane_stride) {
  for (Index k = 0; k < count; k += lanes) {
    Vec t[3][6];
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j)
      weight_gradients([&](int i) { return load(points + (6 * i + j) * point_stride + k); },
                       [&](int i, Vec v) { t[i][j] = v; });
    float g[9][lanes];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i)
      weight_gradients([&](int j) { return t[i][j]; },
                       [&](int j, Vec v) { store(g[3 * i + j], v); });
    for (int lane = 0; lane < lanes; ++lane) {
      float* filter = dw + (k + lane) * lane_stride;
      for (int i = 0; i < 9; ++i) filter[i] = g[i][lane];
    }
  }
}

}  // namespace

extern const WinogradKernels winograd{
    lanes,
    {input<4, float>, output<4, float>, gradient<float>, weight<4>},
    {input<4, Bf16Bits>, output<4, Bf16Bits>, gradient<Bf16Bits>, weight<4>},
    {input<2, float>, output<2, float>, nullptr, weight<2>, 2},
    weight_gradient};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
