// The gradient of the weights of a depthwise convolution, in which each channel is a group:
//
//   dw[c, r, s] = Σ dy[n, i, j, c] x[n, i stride + r dilation - pad, j stride + s dilation - pad,
//   c]
//
// With AVX2 oneDNN's kernel takes twice as long. Each row of dy is multiplied by the rows of x that
// it was computed from, while these are in a core's caches. The rows are divided into parts whose
// number depends only on the sizes, so the bits do not depend on the number of threads.

#include <algorithm>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/strided.h"
#include "tensor/scratch.h"

namespace rondo::cpu::depthwise {
namespace {

using Index = std::int64_t;

bool suits(const Conv2dProblem& p) {
  constexpr Index few = 16;  // channels, which are the lanes of vectors
  return p.pass == Conv2dProblem::Pass::backward_weight && p.dtype == DType::f32 &&
         p.params.groups == p.c && p.k == p.c && p.c >= few;
}

/// In one dimension: the outputs first … last - 1 whose tap reads an input that exists.
struct Outputs {
  Index first, last;
  Outputs(Index tap_offset, Index stride, Index inputs, Index outputs) {
    const Index before = -tap_offset, behind = inputs - tap_offset;  // of output 0
    first = std::clamp<Index>(before > 0 ? (before + stride - 1) / stride : 0, 0, outputs);
    last = std::clamp<Index>(behind > 0 ? (behind + stride - 1) / stride : 0, first, outputs);
  }
};

struct Problem {
  const Tensor &dy, &x;
  const Conv2dParams& params;
  Index channels, height, width, rows, columns, taps_down, taps_across;

  /// Adds columns begin … end - 1 of row `row` of dy, counted through all images, to sums (R, S,
  /// C).
  void add_row(Index row, Index begin, Index end, float* sums) const {
    const Index image = row / rows, i = row % rows;
    const float* gradient = dy.data_ptr<float>() + row * columns * channels;
    for (Index r = 0; r < taps_down; ++r, sums += taps_across * channels) {
      const Index from = i * params.stride_h + r * params.dilation_h - params.pad_h;
      if (from < 0 || from >= height) continue;
      add_taps(gradient, x.data_ptr<float>() + (image * height + from) * width * channels, begin,
               end, sums);
    }
  }

 private:
  /// The taps of one row of a filter.
  void add_taps(const float* gradient, const float* row, Index begin, Index end,
                float* sums) const {
    const auto add = [&](Index first, Index last, Index tap, Index taps) {
      first = std::max(first, begin);
      last = std::min(last, end);
      if (first >= last) return;
      const Index at = first * params.stride_w + tap * params.dilation_w - params.pad_w;
      kernels().depthwise_weight_row(gradient + first * channels, row + at * channels, last - first,
                                     channels, params.stride_w * channels,
                                     params.dilation_w * channels, taps, sums + tap * channels);
    };
    const auto outputs = [&](Index tap) {
      return Outputs(tap * params.dilation_w - params.pad_w, params.stride_w, width, columns);
    };
    // Where no tap reads padding, all are added together; the others each for itself.
    Index first = outputs(0).first, last = outputs(taps_across - 1).last;
    if (first > last) first = last = 0;
    add(first, last, 0, taps_across);
    for (Index s = 0; s < taps_across; ++s) {
      const Outputs own = outputs(s);
      add(own.first, std::min(own.last, first), s, 1);
      add(std::max(own.first, last), own.last, s, 1);
    }
  }
};

void backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                     const Conv2dParams& params) {
  const Problem p{dy,        x,          params,     x.size(1),  x.size(2),
                  x.size(3), dy.size(2), dy.size(3), dw.size(2), dw.size(3)};
  const Index size = dw.numel(), taps = size / p.channels;
  // Pieces of rows are divided into parts, each with sums of its own.
  constexpr Index piece = 256, most_parts = 64, least_work = 1 << 16, least_pixels = 16;
  const Index rows = dy.size(0) * p.rows, pieces = (p.columns + piece - 1) / piece;
  const Index parts = std::clamp<Index>(
      std::min({rows * pieces, dy.numel() * taps / least_work, rows * p.columns / least_pixels}), 1,
      most_parts);
  const Scratch sums(parts * size);
  parallel_for(parts, dy.numel() * taps, [&](Index begin, Index end) {
    for (Index part = begin; part < end; ++part) {
      float* own = sums.data() + part * size;
      std::fill_n(own, size, 0.0F);
      for (Index i = rows * pieces * part / parts; i < rows * pieces * (part + 1) / parts; ++i)
        p.add_row(i / pieces, i % pieces * piece, (i % pieces + 1) * piece, own);
    }
  });
  float* out = dw.data_ptr<float>();
  parallel_for(taps, parts * size, [&](Index begin, Index end) {
    for (Index tap = begin; tap < end; ++tap) {
      float* total = sums.data() + tap * p.channels;
      for (Index part = 1; part < parts; ++part)
        for (Index c = 0; c < p.channels; ++c) total[c] += total[part * size + c];
      for (Index c = 0; c < p.channels; ++c) out[c * taps + tap] = total[c];
    }
  });
}

}  // namespace
}  // namespace rondo::cpu::depthwise

namespace rondo::cpu {

const ConvAlgorithm conv::depthwise{"depthwise", depthwise::suits, nullptr, nullptr,
                                    [](const Tensor& dy, const Tensor& x, const Tensor& dw,
                                       const Tensor& dbias, const Conv2dParams& params) {
                                      sum_in_f32(depthwise::backward_weight, dy, x, dw, dbias,
                                                 params);
                                    }};

}  // namespace rondo::cpu
