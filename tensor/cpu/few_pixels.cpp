#include "tensor/cpu/few_pixels.h"

#include <algorithm>
#include <array>

#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/prepared_weights.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu::few_pixels {
namespace {

using Index = std::int64_t;

/// x unfolded and packed: for each tap of the filter and each vector of channels, the values that
/// the pixels of y see there, 0 outside of x; (taps, channels / lanes, packed_few_rows, lanes).
Tensor unfold(const Tensor& x, const Tensor& w, const Tensor& y, const Conv2dParams& o) {
  const Index lanes = kernels().packed.lanes, channels = x.size(1), height = x.size(2),
              width = x.size(3), columns = w.size(3), groups = channels / lanes;
  const Index pixels = y.numel() / y.size(1), taps = w.size(2) * columns;
  const auto* from = x.data_ptr<float>();
  Tensor rows = Tensor::empty({taps, groups, packed_few_rows, lanes});
  auto* into = rows.data_ptr<float>();
  parallel_for(taps, rows.numel(), [&](Index begin, Index end) {
    std::array<const float*, packed_few_rows> seen{};
    for (Index tap = begin; tap < end; ++tap) {
      for (Index pixel = 0; pixel < packed_few_rows; ++pixel) {
        const Index image = pixel / (y.size(2) * y.size(3)), row = pixel / y.size(3) % y.size(2);
        const Index i = row * o.stride_h + tap / columns * o.dilation_h - o.pad_h;
        const Index j = pixel % y.size(3) * o.stride_w + tap % columns * o.dilation_w - o.pad_w;
        const bool inside = pixel < pixels && i >= 0 && i < height && j >= 0 && j < width;
        seen[pixel] = inside ? from + ((image * height + i) * width + j) * channels : nullptr;
      }
      kernels().packed.pack(seen.data(), packed_few_rows, channels,
                            into + tap * groups * packed_few_rows * lanes, packed_few_rows * lanes);
    }
  });
  return rows;
}

/// (K, C, R, S) in panels: (K / lanes, R, S, C, lanes).
StoragePtr panels(const Tensor& w) {
  const Index lanes = kernels().packed.lanes, channels = w.size(1), taps = w.size(2) * w.size(3);
  const Index depth = taps * channels;
  return prepared_weight(
      w, {.kind = WeightForm::Kind::panels}, static_cast<std::size_t>(w.numel()) * sizeof(float),
      [&](void* data) {
        const auto* from = w.data_ptr<float>();
        auto* into = static_cast<float*>(data);
        parallel_for(w.size(0) / lanes, w.numel(), [&](Index begin, Index end) {
          for (Index panel = begin; panel < end; ++panel)
            for (Index i = 0; i < depth; ++i) {  // as they lie in w
              float* to = into + (panel * depth + i % taps * channels + i / taps) * lanes;
              for (Index lane = 0; lane < lanes; ++lane)
                to[lane] = from[(panel * lanes + lane) * depth + i];
            }
        });
      });
}

}  // namespace

bool suits(const Conv2dProblem& p) {
  constexpr Index cache = 1 << 18;  // floats
  return p.dtype == DType::f32 && p.params.groups == 1 && p.c % 16 == 0 && p.k % 16 == 0 &&
         p.n * p.p * p.q <= packed_few_rows && p.k * p.c * p.r * p.s >= cache;
}

void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params) {
  const Index lanes = kernels().packed.lanes, filters = y.size(1), pixels = y.numel() / filters;
  const Index depth = w.numel() / filters;
  const Tensor left = unfold(x, w, y, params);
  const StoragePtr weights = panels(w);
  const auto* right = static_cast<const float*>(weights->data());
  const auto* rows = left.data_ptr<float>();
  const auto* b = bias.defined() ? bias.data_ptr<float>() : nullptr;
  auto* out = y.data_ptr<float>();
  parallel_for(filters / lanes, pixels * w.numel(), [&](Index begin, Index end) {
    for (Index panel = begin; panel < end; ++panel) {
      const Index k = panel * lanes;
      kernels().packed.multiply_few(rows, right + k * depth, pixels, depth, b ? b + k : nullptr,
                                    out + k, filters);
    }
  });
}

}  // namespace rondo::cpu::few_pixels
