#pragma once
// The text of the functions that exported code calls (export_cpp.h). A file has those that its
// model needs, and those that they need.

#include <array>
#include <string_view>

namespace rondo::io::detail {

struct KernelText {
  std::string_view name;
  std::string_view needs;  // the name of another kernel
  std::string_view text;
};

// All arrays are row-major. `Then` is applied to each element of a result.
inline constexpr auto kernel_texts = std::to_array<KernelText>({
    {"columns", "", R"text(
// 16 floats: one register with AVX-512, several smaller ones without.
typedef float Vec __attribute__((vector_size(64)));
typedef float LooseVec __attribute__((vector_size(64), aligned(4), may_alias));
constexpr Int panel = 32;  // columns that are computed together
#if defined(__AVX512F__)
constexpr Int tile_rows = 8;  // rows whose sums fit into the registers
#elif defined(__AVX__) || defined(__aarch64__)
constexpr Int tile_rows = 3;
#else
constexpr Int tile_rows = 1;
#endif
enum Bias { no_bias, bias_of_row, bias_of_column };

// y (rows x n) = Then(a (rows x depth) b (depth x n) + bias), for n <= panel. Reads `panel`
// columns of b.
template <Int Rows, Bias B, Function Then>
inline void columns(Int rows, Int depth, Int n, const float* a, const float* b, Int b_row,
                    const float* bias, float* y, Int y_row) {
  Int i = 0;
  for (; i + Rows <= rows; i += Rows) {
    const float* from = a + i * depth;
    Vec sums[Rows][2] = {};
    for (Int k = 0; k < depth; ++k) {
      const Vec b0 = *reinterpret_cast<const LooseVec*>(b + k * b_row);
      const Vec b1 = *reinterpret_cast<const LooseVec*>(b + k * b_row + 16);
      for (Int r = 0; r < Rows; ++r) {
        sums[r][0] += from[r * depth + k] * b0;
        sums[r][1] += from[r * depth + k] * b1;
      }
    }
    for (Int r = 0; r < Rows; ++r) {
      const float* sum = reinterpret_cast<const float*>(sums[r]);
      float* to = y + (i + r) * y_row;
      const float first = B == bias_of_row ? bias[i + r] : 0.0f;
      if (n == panel)  // a constant number of columns
        for (Int j = 0; j < panel; ++j)
          to[j] = Then(sum[j] + (B == bias_of_column ? bias[j] : first));
      else
        for (Int j = 0; j < n; ++j) to[j] = Then(sum[j] + (B == bias_of_column ? bias[j] : first));
    }
  }
  if constexpr (Rows > 1)
    columns<Rows / 2, B, Then>(rows - i, depth, n, a + i * depth, b, b_row,
                               B == bias_of_row ? bias + i : bias, y + i * y_row, y_row);
}
)text"},
    {"linear", "columns", R"text(
// y (Rows x Outputs) = Then(x (Rows x Inputs) w + bias). w is stored in panels of 32
// outputs: (Inputs x 32) each.
template <Int Rows, Int Inputs, Int Outputs, Function Then>
void linear(const float* x, const float* w, const float* bias, float* y) {
  RONDO_PARALLEL
  for (Int j = 0; j < Outputs; j += panel)
    columns<tile_rows, bias_of_column, Then>(Rows, Inputs, std::min(panel, Outputs - j), x,
                                             w + j * Inputs, panel, bias + j, y + j, Outputs);
}
)text"},
    {"matmul", "columns", R"text(
// y (Rows x Columns) = Then(a (Rows x Depth) b (Depth x Columns) + bias).
template <Int Rows, Int Depth, Int Columns, Bias B, Function Then>
void matmul(const float* a, const float* b, const float* bias, float* y) {
  RONDO_PARALLEL
  for (Int j = 0; j < Columns; j += panel) {
    if (j + panel <= Columns) {
      columns<tile_rows, B, Then>(Rows, Depth, panel, a, b + j, Columns, bias, y + j, Columns);
    } else {
      constexpr Int rest = Columns % panel;
      float part[Depth * panel] = {};
      for (Int k = 0; k < Depth; ++k)
        for (Int i = 0; i < rest; ++i) part[k * panel + i] = b[k * Columns + j + i];
      columns<tile_rows, B, Then>(Rows, Depth, rest, a, part, panel, bias, y + j, Columns);
    }
  }
}
)text"},
    {"bmm", "matmul", R"text(
// A matrix product for each of Batch pairs of matrices.
template <Int Batch, Int Rows, Int Depth, Int Columns, Function Then>
void bmm(const float* a, const float* b, float* y) {
  for (Int i = 0; i < Batch; ++i)
    matmul<Rows, Depth, Columns, no_bias, Then>(a + i * Rows * Depth, b + i * Depth * Columns,
                                                nullptr, y + i * Rows * Columns);
}
)text"},
    {"pointwise", "matmul", R"text(
// A 1 x 1 convolution of Batch images (C, Pixels): a matrix product for each.
template <Int Batch, Int C, Int Pixels, Int K, Function Then>
void pointwise(const float* x, const float* w, const float* bias, float* y) {
  for (Int i = 0; i < Batch; ++i)
    matmul<K, C, Pixels, bias_of_row, Then>(w, x + i * C * Pixels, bias, y + i * K * Pixels);
}
)text"},
    {"pad", "", R"text(
// `to` = x (C, H, W) with zeros around each channel.
template <Int C, Int H, Int W, Int PadH, Int PadW>
const float* pad(const float* x, float* to) {
  if constexpr (PadH == 0 && PadW == 0) return x;
  constexpr Int row = W + 2 * PadW;
  std::fill(to, to + C * (H + 2 * PadH) * row, 0.0f);
  for (Int c = 0; c < C; ++c)
    for (Int h = 0; h < H; ++h)
      for (Int w = 0; w < W; ++w)
        to[(c * (H + 2 * PadH) + h + PadH) * row + w + PadW] = x[(c * H + h) * W + w];
  return to;
}
constexpr Int windows(Int size, Int kernel, Int stride, Int pad, Int dilation) {
  return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}
)text"},
    {"conv2d", "columns pad", R"text(
// Convolutions of Batch images (Groups C, H, W) with w (Groups K, C, R, S). For up to 32
// pixels at once, all inputs that they need are copied next to each other; the rest is a
// matrix product.
template <Int Batch, Int Groups, Int C, Int H, Int W, Int K, Int R, Int S, Int StrideH, Int StrideW,
          Int PadH, Int PadW, Int DilationH, Int DilationW, Function Then>
void conv2d(const float* x, const float* w, const float* bias, float* padded, float* y) {
  constexpr Int P = windows(H, R, StrideH, PadH, DilationH),
                Q = windows(W, S, StrideW, PadW, DilationW);
  constexpr Int rows = H + 2 * PadH, row = W + 2 * PadW, depth = C * R * S;
  // The pixels of a panel: a part of one row, or several rows. The last ones overlap those
  // before.
  constexpr Int parts = (Q + panel - 1) / panel, wide = (Q + parts - 1) / parts;
  constexpr Int high = std::min(P, std::max<Int>(panel / Q, 1)), bands = (P + high - 1) / high;
  for (Int image = 0; image < Batch * Groups; ++image) {
    const Int group = image % Groups;
    const float* in = pad<C, H, W, PadH, PadW>(x + image * C * H * W, padded);
    RONDO_PARALLEL
    for (Int at = 0; at < bands * parts; ++at) {
      const Int p = std::min(at / parts * high, P - high),
                q = std::min(at % parts * wide, Q - wide);
      alignas(64) float inputs[depth * panel];
      if constexpr (wide * high < panel) std::fill(inputs, inputs + depth * panel, 0.0f);
      float* to = inputs;
      for (Int c = 0; c < C; ++c)
        for (Int r = 0; r < R; ++r)
          for (Int s = 0; s < S; ++s, to += panel) {
            const float* from =
                in + (c * rows + p * StrideH + r * DilationH) * row + q * StrideW + s * DilationW;
            for (Int i = 0; i < high; ++i)
              for (Int j = 0; j < wide; ++j)
                to[i * wide + j] = from[i * StrideH * row + j * StrideW];
          }
      columns<tile_rows, bias_of_row, Then>(K, depth, wide * high, w + group * K * depth, inputs,
                                            panel, bias + group * K,
                                            y + image * K * P * Q + p * Q + q, P * Q);
    }
  }
}
)text"},
    {"depthwise", "pad", R"text(
// A convolution of each channel with its own kernel: w (C, R, S).
template <Int Batch, Int C, Int H, Int W, Int R, Int S, Int StrideH, Int StrideW, Int PadH,
          Int PadW, Int DilationH, Int DilationW, Function Then>
void depthwise(const float* x, const float* w, const float* bias, float* padded, float* y) {
  constexpr Int P = windows(H, R, StrideH, PadH, DilationH),
                Q = windows(W, S, StrideW, PadW, DilationW);
  constexpr Int row = W + 2 * PadW;
  for (Int c = 0; c < Batch * C; ++c) {
    const float *in = pad<1, H, W, PadH, PadW>(x + c * H * W, padded), *kernel = w + c % C * R * S;
    for (Int p = 0; p < P; ++p, y += Q) {
      float sums[Q];
      for (Int q = 0; q < Q; ++q) sums[q] = bias[c % C];
      for (Int r = 0; r < R; ++r)
        for (Int s = 0; s < S; ++s)
          for (Int q = 0; q < Q; ++q)
            sums[q] += kernel[r * S + s] *
                       in[(p * StrideH + r * DilationH) * row + s * DilationW + q * StrideW];
      for (Int q = 0; q < Q; ++q) y[q] = Then(sums[q]);
    }
  }
}
)text"},
    {"pool", "", R"text(
// The part [begin, end) of a line that window i covers, and the number of elements that it
// counts.
struct Window {
  Int begin, end, count;
};
// y (Planes, P, Q): the greatest element, or the mean, of the windows of x (Planes, H, W).
template <bool Greatest, class Rows, class Columns>
void pool(const float* x, float* y, Int planes, Int h, Int w, Int p, Int q, Rows rows,
          Columns columns) {
  for (Int plane = 0; plane < planes; ++plane, x += h * w)
    for (Int i = 0; i < p; ++i)
      for (Int j = 0; j < q; ++j) {
        const Window a = rows(i), b = columns(j);
        float greatest = -INFINITY, sum = 0;
        for (Int u = a.begin; u < a.end; ++u)
          for (Int v = b.begin; v < b.end; ++v) {
            const float element = x[u * w + v];
            if (!(element <= greatest))
              greatest = element;  // NaN is greater than all
                                   // others
            sum += element;
          }
        *y++ = Greatest ? greatest : sum / static_cast<float>(a.count * b.count);
      }
}
)text"},
    {"pool2d", "pool", R"text(
inline Window window(Int i, Int size, Int kernel, Int stride, Int pad, bool counts_padding) {
  const Int from = i * stride - pad, to = std::min(from + kernel, size + pad);
  const Int begin = std::max<Int>(from, 0), end = std::min(to, size);
  return {begin, end, counts_padding ? to - from : end - begin};
}
template <bool Greatest, bool CountsPadding>
void pool2d(const float* x, float* y, Int planes, Int h, Int w, Int p, Int q, Int kernel_h,
            Int kernel_w, Int stride_h, Int stride_w, Int pad_h, Int pad_w) {
  pool<Greatest>(
      x, y, planes, h, w, p, q,
      [=](Int i) { return window(i, h, kernel_h, stride_h, pad_h, CountsPadding); },
      [=](Int j) { return window(j, w, kernel_w, stride_w, pad_w, CountsPadding); });
}
)text"},
    {"adaptive_avg_pool2d", "pool", R"text(
inline Window adaptive_window(Int i, Int size, Int windows) {
  const Int begin = i * size / windows, end = ((i + 1) * size - 1) / windows + 1;
  return {begin, end, end - begin};
}
inline void adaptive_avg_pool2d(const float* x, float* y, Int planes, Int h, Int w, Int p, Int q) {
  pool<false>(
      x, y, planes, h, w, p, q, [=](Int i) { return adaptive_window(i, h, p); },
      [=](Int j) { return adaptive_window(j, w, q); });
}
)text"},
    {"map", "", R"text(
// y = Then(x).
template <Int N, Function Then>
void map(const float* x, float* y) {
  for (Int i = 0; i < N; ++i) y[i] = Then(x[i]);
}
)text"},
    {"combine", "", R"text(
// y = Then(Op(a, b)). Where a dimension of a or b is repeated, its stride is 0.
template <BinaryFunction Op, Function Then>
float* combine(const float* a, const float* b, Int rank, const Int* sizes, const Int* a_strides,
               const Int* b_strides, float* y) {
  const Int n = sizes[0], da = a_strides[0], db = b_strides[0];
  if (rank > 1) {
    for (Int i = 0; i < n; ++i)
      y = combine<Op, Then>(a + i * da, b + i * db, rank - 1, sizes + 1, a_strides + 1,
                            b_strides + 1, y);
    return y;
  }
  if (da == 1 && db == 1)  // a loop that is vectorised
    for (Int i = 0; i < n; ++i) y[i] = Then(Op(a[i], b[i]));
  else
    for (Int i = 0; i < n; ++i) y[i] = Then(Op(a[i * da], b[i * db]));
  return y + n;
}
template <BinaryFunction Op, Function Then, Int Rank>
void combine(const float* a, const float* b, float* y, const Int (&sizes)[Rank],
             const Int (&a_strides)[Rank], const Int (&b_strides)[Rank]) {
  combine<Op, Then>(a, b, Rank, sizes, a_strides, b_strides, y);
}
)text"},
    {"arrange", "", R"text(
// y = the elements of x in another order: transposed, repeated, or a part of them.
inline float* arrange(const float* x, Int rank, const Int* sizes, const Int* strides, float* y) {
  for (Int i = 0; i < sizes[0]; ++i) {
    if (rank > 1)
      y = arrange(x + i * strides[0], rank - 1, sizes + 1, strides + 1, y);
    else
      *y++ = x[i * strides[0]];
  }
  return y;
}
template <Int Rank>
void arrange(const float* x, float* y, Int first, const Int (&sizes)[Rank],
             const Int (&strides)[Rank]) {
  arrange(x + first, Rank, sizes, strides, y);
}
)text"},
    {"put", "", R"text(
// Copies x (rows, n) into columns first to first + n of y (rows, width).
inline void put(const float* x, float* y, Int rows, Int n, Int first, Int width) {
  for (Int i = 0; i < rows; ++i) std::copy(x + i * n, x + (i + 1) * n, y + i * width + first);
}
)text"},
    {"fold", "", R"text(
// y (outer, inner) = Then(x[:, 0] Op x[:, 1] Op …), of x (outer, n, inner).
template <BinaryFunction Op, Function Then>
void fold(const float* x, float* y, Int outer, Int n, Int inner) {
  for (Int o = 0; o < outer; ++o, x += n * inner, y += inner)
    for (Int i = 0; i < inner; ++i) {
      float all = x[i];
      for (Int k = 1; k < n; ++k) all = Op(all, x[k * inner + i]);
      y[i] = Then(all);
    }
}
)text"},
    {"scale", "", R"text(
// y = Then(x * w + b) of x (outer, channels, inner): a batch norm.
template <Function Then>
void scale(const float* x, const float* w, const float* b, float* y, Int outer, Int channels,
           Int inner) {
  for (Int o = 0; o < outer * channels; ++o, x += inner, y += inner)
    for (Int i = 0; i < inner; ++i) y[i] = Then(x[i] * w[o % channels] + b[o % channels]);
}
)text"},
    {"overlap", "", R"text(
// Adds x (planes, R, S, H, W) to the pixels of y (planes, P, Q) from which a convolution with windows
// of R x S would compute (H, W). y = Then(the sums).
template <Function Then>
void overlap(const float* x, float* y, Int planes, Int H, Int W, Int P, Int Q, Int R, Int S,
             Int stride_h, Int stride_w, Int pad_h, Int pad_w, Int dilation_h, Int dilation_w) {
  for (Int plane = 0; plane < planes; ++plane, y += P * Q) {
    std::fill(y, y + P * Q, 0.0f);
    for (Int window = 0; window < R * S; ++window)
      for (Int h = 0; h < H; ++h, x += W) {
        const Int p = h * stride_h + window / S * dilation_h - pad_h;
        const Int first = window % S * dilation_w - pad_w;
        for (Int w = 0; w < W; ++w) {
          const Int q = w * stride_w + first;
          if (p >= 0 && p < P && q >= 0 && q < Q) y[p * Q + q] += x[w];
        }
      }
    for (Int i = 0; i < P * Q; ++i) y[i] = Then(y[i]);
  }
}
)text"},
    {"layer_norm", "", R"text(
// y = Then((x - mean) / sqrt(variance + eps) * w + b) of each row of x (rows, n).
template <Function Then>
void layer_norm(const float* x, const float* w, const float* b, float* y, Int rows, Int n,
                double eps) {
  for (Int r = 0; r < rows; ++r, x += n, y += n) {
    double sum = 0, squares = 0;
    for (Int i = 0; i < n; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(n);
    for (Int i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float center = static_cast<float>(mean);
    const float factor = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
    for (Int i = 0; i < n; ++i) y[i] = Then((x[i] - center) * factor * w[i] + b[i]);
  }
}
)text"},
    {"softmax", "", R"text(
// exp(x) / sum exp(x), or its logarithm, along the middle dimension of x (outer, n, inner).
template <bool Log>
void softmax(const float* x, float* y, Int outer, Int n, Int inner) {
  for (Int o = 0; o < outer * inner; ++o) {
    const Int first = o / inner * n * inner + o % inner, end = first + n * inner;
    float greatest = x[first];
    for (Int i = first; i < end; i += inner) greatest = std::max(greatest, x[i]);
    double sum = 0;
    for (Int i = first; i < end; i += inner) {
      const float power = std::exp(x[i] - greatest);
      sum += power;
      y[i] = Log ? x[i] - greatest : power;
    }
    const float all = static_cast<float>(Log ? std::log(sum) : 1 / sum);
    for (Int i = first; i < end; i += inner) y[i] = Log ? y[i] - all : y[i] * all;
  }
}
)text"},
    {"embedding", "", R"text(
// The rows of `table` (size, width) with these indices.
inline void embedding(const std::int64_t* index, const float* table, float* y, Int n, Int size,
                      Int width) {
  for (Int i = 0; i < n; ++i) {
    if (index[i] < 0 || index[i] >= size)
      throw std::out_of_range("input " + std::to_string(i) + " is " + std::to_string(index[i]) +
                              ", but the embedding has rows 0 to " + std::to_string(size - 1));
    std::copy(table + index[i] * width, table + (index[i] + 1) * width, y + i * width);
  }
}
)text"},
});

// A whole file. export_cpp replaces the names between '@'.
inline constexpr std::string_view program_text =
    R"text(// Written by rondo's export_cpp: a model with inputs @INPUT_SHAPE@ and outputs @OUTPUT_SHAPE@. Its
// weights are in @WEIGHTS@. It needs C++17 and GCC or Clang, and is fast with -O3 -march=native;
// -fopenmp uses all cores.
//
//   @NAME@::Model model("@WEIGHTS@");
//   model.run(x, y);  // reads @INPUT_SIZE@ elements, writes @OUTPUT_SIZE@
//
// With -DRONDO_MAIN this file is a program. It reads inputs from stdin, one after the other, and
// writes the outputs to stdout, both in binary: PROGRAM [@WEIGHTS@] < INPUTS > OUTPUTS

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef _OPENMP
#define RONDO_PARALLEL _Pragma("omp parallel for")
#else
#define RONDO_PARALLEL
#endif

namespace @NAME@ {
namespace {

using Int = std::ptrdiff_t;
using Function = float (*)(float);
using BinaryFunction = float (*)(float, float);

// Functions of elements.
@FUNCTIONS@@KERNELS@
// Reads the file of weights: little-endian floats.
inline std::vector<float> load(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error(path + ": cannot open the weights of @FILE@");
  const long long bytes = file.tellg(), expected = @BYTES@;
  if (bytes != expected)
    throw std::runtime_error(path + ": has " + std::to_string(bytes) + " bytes, but the weights of @FILE@ have " +
                             std::to_string(expected) + "; the file is truncated or of another export");
  std::vector<float> weights(static_cast<std::size_t>(bytes) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(weights.data()), bytes);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a of 32 bits at once
  for (const float& weight : weights) {
    std::uint32_t bits;
    std::memcpy(&bits, &weight, sizeof bits);
    hash = (hash ^ bits) * 1099511628211U;
  }
  if (hash != @HASH@)
    throw std::runtime_error(path + ": is not the weights of @FILE@; the file is damaged or of another export");
  return weights;
}

}  // namespace

class Model {
 public:
  using Input = @INPUT@;
  static constexpr std::size_t input_size = @INPUT_SIZE@, output_size = @OUTPUT_SIZE@;

  explicit Model(const std::string& weights = "@WEIGHTS@")
      : weights_(load(weights)), activations_(@MEMORY@) {}

  // Reads input_size elements and writes output_size. One thread at a time may run a model.
  void run(const Input* x, float* y) {
    [[maybe_unused]] const float* w = weights_.data();
    [[maybe_unused]] float* a = activations_.data();
@CALLS@  }

 private:
  std::vector<float> weights_, activations_;
};

}  // namespace @NAME@

#ifdef RONDO_MAIN
int main(int argc, char** argv) {
  using @NAME@::Model;
  try {
    Model model(argc > 1 ? argv[1] : "@WEIGHTS@");
    std::vector<Model::Input> x(Model::input_size);
    std::vector<float> y(Model::output_size);
    std::size_t n;
    while ((n = std::fread(x.data(), sizeof x[0], x.size(), stdin)) == x.size()) {
      model.run(x.data(), y.data());
      if (std::fwrite(y.data(), sizeof y[0], y.size(), stdout) != y.size())
        throw std::runtime_error("stdout: cannot write");
    }
    if (n != 0)
      throw std::runtime_error("stdin: ends after " + std::to_string(n) + " of the " +
                               std::to_string(x.size()) + " elements of an input");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
#endif
)text";

}  // namespace rondo::io::detail
