#include "tensor/cpu/conv/few_pixels.h"

#include <algorithm>
#include <array>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/prepared_weights.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu::few_pixels {
namespace {

using Index = std::int64_t;

constexpr Index most_pixels = 64;  // the maximum of PackedKernels::few_rows

Index round_up(Index n) { return (n + 15) / 16 * 16; }

/// x unfolded and packed: for each tap of the filter and each vector of channels, the values that
/// the pixels of y read there, 0 outside of x. Shape (taps, channels / lanes, pixels, lanes). The
/// pixels are rounded up to a multiple of 16, plus one unused pixel, so that vectors of channels do
/// not compete for the same cache sets.
Tensor unfold(const Tensor& x, const Tensor& w, const Tensor& y, const Conv2dParams& o) {
  const Index lanes = kernels().packed.lanes, channels = x.size(1), height = x.size(2),
              width = x.size(3), columns = w.size(3), groups = channels / lanes;
  const Index pixels = y.numel() / y.size(1), count = round_up(pixels), group = (count + 1) * lanes;
  const Index taps = w.size(2) * columns;
  const auto* from = x.data_ptr<float>();
  Tensor packed = Tensor::empty({taps, groups, count + 1, lanes});
  auto* into = packed.data_ptr<float>();
  const auto seen = [&](Index tap, Index pixel) -> const float* {
    const Index image = pixel / (y.size(2) * y.size(3)), row = pixel / y.size(3) % y.size(2);
    const Index i = row * o.stride_h + tap / columns * o.dilation_h - o.pad_h;
    const Index j = pixel % y.size(3) * o.stride_w + tap % columns * o.dilation_w - o.pad_w;
    const bool inside = pixel < pixels && i >= 0 && i < height && j >= 0 && j < width;
    return inside ? from + ((image * height + i) * width + j) * channels : nullptr;
  };
  parallel_for(taps * count, packed.numel(), [&](Index begin, Index end) {
    std::array<const float*, most_pixels> rows;
    while (begin < end) {
      const Index tap = begin / count, first = begin % count,
                  some = std::min(count - first, end - begin);
      for (Index i = 0; i < some; ++i) rows[i] = seen(tap, first + i);
      begin += some;
      kernels().packed.pack(rows.data(), some, channels,
                            into + tap * groups * group + first * lanes, group);
    }
  });
  return packed;
}

/// The weights in the order in which the kernel reads them: blocks of `terms` terms of the sums,
/// and within a block panel after panel, (terms, filters of a panel).
class Panels {
 public:
  explicit Panels(const Tensor& w)
      : filters_(w.size(0)),
        channels_(w.size(1)),
        taps_(w.size(2) * w.size(3)),
        terms_(std::min<Index>(depth(), kernels().packed.few_terms)),
        data_(prepared_weight(w, {.kind = WeightForm::Kind::panels},
                              static_cast<std::size_t>(w.numel()) * sizeof(float),
                              [&](void* data) { fill(w, static_cast<float*>(data)); })) {}
  Index depth() const { return channels_ * taps_; }
  /// The number of terms per block. The block's part of x stays in a cache while the panels are
  /// read.
  Index terms() const { return terms_; }
  Index offset(Index panel, Index d) const {
    return d * filters_ + panel * std::min(terms_, depth() - d) * width_;
  }
  const float* at(Index panel, Index d) const {
    return static_cast<const float*>(data_->data()) + offset(panel, d);
  }

 private:
  /// Copies from (K, C, R, S); terms are numbered tap by tap.
  void fill(const Tensor& w, float* into) const {
    const auto* from = w.data_ptr<float>();
    parallel_for(filters_ / width_, w.numel(), [&](Index begin, Index end) {
      for (Index panel = begin; panel < end; ++panel)
        for (Index i = 0; i < depth(); ++i) {  // in the order of w
          const Index term = i % taps_ * channels_ + i / taps_, within = term % terms_;
          float* to = into + offset(panel, term - within) + within * width_;
          for (Index k = 0; k < width_; ++k) to[k] = from[(panel * width_ + k) * depth() + i];
        }
    });
  }

  const Index width_ = kernels().packed.few_panel, filters_, channels_, taps_, terms_;
  StoragePtr data_;
};

}  // namespace

bool suits(const Conv2dProblem& p) {
  constexpr Index cache = 1 << 18;  // floats
  return p.pass == Conv2dProblem::Pass::forward && p.dtype == DType::f32 && p.params.groups == 1 &&
         p.c % 16 == 0 && p.k % 16 == 0 && p.n * p.p * p.q <= kernels().packed.few_rows &&
         p.k * p.c * p.r * p.s >= cache;
}

void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params) {
  constexpr Index near = 1024;  // prefetch distance in floats
  const PackedKernels& k = kernels().packed;
  const Index width = k.few_panel, filters = y.size(1), pixels = y.numel() / filters;
  const Index group = (round_up(pixels) + 1) * k.lanes;
  const Tensor packed = unfold(x, w, y, params);
  const Panels right(w);
  const Index depth = right.depth(), terms = right.terms();
  const Scratch scratch(filters / k.lanes * group);
  const float* left = packed.data_ptr<float>();
  const float* b = bias.defined() ? bias.data_ptr<float>() : nullptr;
  float *const sums = scratch.data(), *const out = y.data_ptr<float>();
  parallel_for(filters / width, pixels * w.numel(), [&](Index begin, Index end) {
    for (Index d = 0; d < depth; d += terms)
      for (Index panel = begin; panel < end; ++panel) {
        const float* next = terms == depth    ? right.at(panel, 0) + near
                            : panel + 1 < end ? right.at(panel + 1, d)
                                              : right.at(begin, d + terms);
        k.multiply_few({left + d / k.lanes * group, group}, right.at(panel, d), pixels,
                       std::min(terms, depth - d), d > 0, sums + panel * width / k.lanes * group,
                       group, next);
      }
    const Index first = begin * width;
    std::array<float*, most_pixels> rows;
    for (Index i = 0; i < pixels; ++i) rows[i] = out + i * filters + first;
    k.unpack({sums + first / k.lanes * group, group}, pixels, (end - begin) * width,
             b != nullptr ? b + first : nullptr, rows.data());
  });
}

}  // namespace rondo::cpu::few_pixels

namespace rondo::cpu {

const ConvAlgorithm conv::few_pixels{"few_pixels", few_pixels::suits, few_pixels::conv2d, nullptr,
                                     nullptr};

}  // namespace rondo::cpu
