#include "tensor/cpu/conv/implicit_gemm.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/prepared_weights.h"
#include "tensor/cpu/strided.h"
#include "tensor/environment.h"

namespace rondo::cpu::implicit_gemm {
namespace {

using Index = std::int64_t;

/// The pixels of a channels_last tensor.
struct Pixels {
  float* data;
  Index images, height, width, channels;

  explicit Pixels(const Tensor& x)
      : data(x.data_ptr<float>()),
        images(x.size(0)),
        height(x.size(2)),
        width(x.size(3)),
        channels(x.size(1)) {}
  /// Null outside the plane.
  float* at(Index image, Index i, Index j) const {
    if (i < 0 || i >= height || j < 0 || j >= width) return nullptr;
    return data + ((image * height + i) * width + j) * channels;
  }
};

/// A regular grid of pixels in every image: (top + i down, left + j right), i < rows, j < columns.
struct Grid {
  Index rows, columns, top, left, down, right;

  Index per_image() const { return rows * columns; }
  /// Stores the addresses in x of `count` grid pixels, beginning with number `first`. The numbers
  /// continue from image to image.
  template <class Pointer>
  void find(const Pixels& x, Index first, Index count, Pointer* into) const {
    Index image = first / per_image(), i = first / columns % rows, j = first % columns;
    for (Index n = 0; n < count; ++n) {
      into[n] = x.at(image, top + i * down, left + j * right);
      if (++j < columns) continue;
      j = 0;
      if (++i < rows) continue;
      i = 0;
      ++image;
    }
  }
};

/// The pixels that the output's pixels read through one tap of the filter, and the tap's number.
struct Tap {
  Grid seen;
  Index number;
};

/// The pixels of x that y's pixels read through each tap of an r x s filter.
std::vector<Tap> taps_of(const Pixels& y, Index r, Index s, const Conv2dParams& o) {
  std::vector<Tap> taps;
  for (Index i = 0; i < r; ++i)
    for (Index j = 0; j < s; ++j)
      taps.push_back({{y.height, y.width, i * o.dilation_h - o.pad_h, j * o.dilation_w - o.pad_w,
                       o.stride_h, o.stride_w},
                      i * s + j});
  return taps;
}

/// The pixels of a block, which is packed and multiplied. One vector of their channels and a panel
/// of the other factor fit into the first-level cache; some hundred channels fit into the second.
/// One unused pixel follows, so that a block's vectors of channels do not compete for the same
/// cache sets.
constexpr Index block_pixels = 96;
Index group() { return (block_pixels + 1) * kernels().packed.lanes; }
Index packed_floats(Index channels) { return channels / kernels().packed.lanes * group(); }

/// y's pixels in `grid` = Σ over the taps of (the pixels of x they read) · (the tap's panels) +
/// bias.
void convolve(const Pixels& x, const std::vector<Tap>& taps, const float* panels, const float* bias,
              const Pixels& y, const Grid& grid) {
  const PackedKernels& k = kernels().packed;
  const Index pixels = y.images * grid.per_image(), products = x.channels * y.channels;
  const Index terms = static_cast<Index>(taps.size()) * x.channels;
  const int threads =
      static_cast<int>(std::min<Index>(threads_for(pixels * (terms + y.channels)), pixels));
  const Index x_floats = packed_floats(x.channels), floats = x_floats + packed_floats(y.channels);
  const Scratch scratch(threads * floats);
  parallel_shares(pixels, threads, [&](int share, Index begin, Index end) {
    float* const left = scratch.data() + share * floats;
    float* const sums = left + x_floats;
    // The sums of pixels without a tap must be 0. Rows beyond the last one are multiplied as well.
    std::fill(left, left + floats, 0.f);
    std::array<const float*, block_pixels> from{};
    std::array<float*, block_pixels> to{};
    for (Index first = begin; first < end; first += block_pixels) {
      const Index count = std::min(block_pixels, end - first);
      for (const Tap& tap : taps) {
        tap.seen.find(x, first, count, from.data());
        k.pack(from.data(), count, x.channels, left, group());
        k.multiply({left, group()}, panels + tap.number * products, count, x.channels, y.channels,
                   &tap != taps.data(), sums, group());
      }
      grid.find(y, first, count, to.data());
      k.unpack({sums, group()}, count, y.channels, bias, to.data());
    }
  });
}

/// w (K, C, R, S) for convolve, tap by tap in panels: (taps, outputs / panel, inputs, panel). The
/// outputs are filters and the inputs channels, or the reverse in the backward pass.
StoragePtr panels_of(const Tensor& w, bool backward) {
  using Kind = WeightForm::Kind;
  const Index taps = w.size(2) * w.size(3);
  const Index outputs = w.size(backward ? 1 : 0), inputs = w.size(backward ? 0 : 1);
  const Index output_stride = w.stride(backward ? 1 : 0), input_stride = w.stride(backward ? 0 : 1);
  const auto fill = [&](void* data) {
    const Index panel = kernels().packed.panel(outputs);
    const auto* from = w.data_ptr<float>();
    parallel_for(outputs / panel, w.numel(), [&](Index begin, Index end) {
      float* into = static_cast<float*>(data) + begin * inputs * panel;
      for (Index first = begin * panel; first < end * panel; first += panel)
        for (Index i = 0; i < inputs; ++i, into += panel)
          for (Index lane = 0; lane < panel; ++lane) {
            const float* value = from + (first + lane) * output_stride + i * input_stride;
            for (Index tap = 0; tap < taps; ++tap) into[tap * inputs * outputs + lane] = value[tap];
          }
    });
  };
  return prepared_weight(w, {.kind = backward ? Kind::taps_turned : Kind::taps},
                         static_cast<std::size_t>(w.numel()) * sizeof(float), fill);
}

/// Σ over pixels of (the values of x they read), transposed, times dy: for each panel of filters a
/// matrix (taps x channels, panel).
class GemmWeightSums {
 public:
  GemmWeightSums(const Tensor& dy, const Tensor& x, const Tensor& dw, const Conv2dParams& params)
      : x_(x),
        dy_(dy),
        taps_(taps_of(dy_, dw.size(2), dw.size(3), params)),
        grid_{dy_.height, dy_.width, 0, 0, 1, 1},
        rows_(static_cast<Index>(taps_.size()) * x_.channels),
        filters_(dy_.channels),
        panel_(kernels().packed.panel(filters_)),
        sums_(rows_ * filters_) {}

  /// All threads together pack some blocks of pixels; then each thread adds all of these blocks to
  /// its part of the sums.
  void sum() {
    constexpr Index cache = 1 << 20;  // floats of the last-level cache used for packed blocks
    const Index pixels = dy_.images * grid_.per_image();
    const Index blocks = (pixels + block_pixels - 1) / block_pixels;
    const Index together = std::clamp<Index>(cache / block_floats(), 1, blocks);
    const Scratch packed(together * block_floats());
    for (Index first = 0; first < blocks; first += together) {
      const Index begin = first * block_pixels,
                  end = std::min(pixels, (first + together) * block_pixels);
      pack(begin, end, packed.data());
      add(end - begin, first == 0, packed.data());
    }
  }

  /// dw (K, C, R, S)
  void store(const Tensor& dw) const {
    constexpr Index piece = 16;  // channels whose sums and gradients fit into a cache together
    const Index pieces = x_.channels / piece, taps = static_cast<Index>(taps_.size());
    float* const out = dw.data_ptr<float>();
    parallel_for(filters_ / panel_ * pieces, rows_ * filters_, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const Index first = i / pieces * panel_, channel = i % pieces * piece;
        const float* sums = sums_.data() + first * rows_ + channel * panel_;
        for (Index lane = 0; lane < panel_; ++lane) {
          float* to = out + ((first + lane) * x_.channels + channel) * taps;
          for (Index c = 0; c < piece; ++c)
            for (Index tap = 0; tap < taps; ++tap)
              *to++ = sums[(tap * x_.channels + c) * panel_ + lane];
        }
      }
    });
  }

 private:
  Index x_floats() const { return packed_floats(rows_); }
  Index block_floats() const { return x_floats() + packed_floats(filters_); }

  /// Packs the pixels `begin` to `end`, block after block: first the pixels of x that they read
  /// through each tap, then dy.
  void pack(Index begin, Index end, float* blocks) const {
    const PackedKernels& k = kernels().packed;
    parallel_for(end - begin, (end - begin) * (rows_ + filters_), [&](Index from, Index to) {
      std::array<const float*, block_pixels> pixels{};
      while (from < to) {
        const Index place = from % block_pixels, count = std::min(block_pixels - place, to - from);
        float* into = blocks + from / block_pixels * block_floats() + place * k.lanes;
        for (const Tap& tap : taps_) {
          tap.seen.find(x_, begin + from, count, pixels.data());
          k.pack(pixels.data(), count, x_.channels, into, group());
          into += packed_floats(x_.channels);
        }
        grid_.find(dy_, begin + from, count, pixels.data());
        k.pack(pixels.data(), count, filters_, into, group());
        from += count;
      }
    });
  }

  /// Adds packed blocks of `pixels` pixels to the sums, or overwrites the sums if `first`.
  void add(Index pixels, bool first, const float* blocks) const {
    const PackedKernels& k = kernels().packed;
    const Index panels = filters_ / panel_;
    const Index work = pixels * rows_ * panels;
    Index piece = 256;  // rows that fit into a second-level cache while the panels are read
    while (piece > 16 && panels * (rows_ / piece) < 8 * threads_for(work)) piece /= 2;
    const Index pieces = (rows_ + piece - 1) / piece;
    parallel_for(pieces * panels, work, [&](Index begin, Index end) {
      for (Index done = 0; done < pixels; done += block_pixels) {
        const float* block = blocks + done / block_pixels * block_floats();
        for (Index i = begin; i < end; ++i) {
          const Index row = i / panels * piece, column = i % panels * panel_;
          k.accumulate({block + packed_floats(row), group()},
                       {block + x_floats() + packed_floats(column), group()},
                       std::min(block_pixels, pixels - done), std::min(piece, rows_ - row), panel_,
                       first && done == 0, sums_.data() + column * rows_ + row * panel_, panel_);
        }
      }
    });
  }

  Pixels x_, dy_;
  std::vector<Tap> taps_;
  Grid grid_;  // dy's pixels
  Index rows_, filters_, panel_;
  Scratch sums_;
};

}  // namespace

bool suits(const Conv2dProblem& p) {
  constexpr Index few = 2 * block_pixels;  // below it, reading the weights costs too much
  return p.n * p.p * p.q >= few && p.dtype == DType::f32 && p.params.groups == 1 && p.c % 16 == 0 &&
         p.k % 16 == 0 && std::min(p.c, p.k) >= 64 &&
         (p.pass == Conv2dProblem::Pass::backward_weight || p.r * p.s > 1);
}

void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params) {
  const Pixels to(y);
  const StoragePtr panels = panels_of(w, false);
  convolve(Pixels(x), taps_of(to, w.size(2), w.size(3), params),
           static_cast<const float*>(panels->data()),
           bias.defined() ? bias.data_ptr<float>() : nullptr, to,
           {to.height, to.width, 0, 0, 1, 1});
}

void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& o) {
  const Pixels from(dy), to(dx);
  const StoragePtr panels = panels_of(w, true);
  // The class of the pixels (top + i stride_h, left + j stride_w).
  for (Index top = 0; top < std::min(o.stride_h, to.height); ++top)
    for (Index left = 0; left < std::min(o.stride_w, to.width); ++left) {
      const Grid grid{(to.height - top + o.stride_h - 1) / o.stride_h,
                      (to.width - left + o.stride_w - 1) / o.stride_w,
                      top,
                      left,
                      o.stride_h,
                      o.stride_w};
      std::vector<Tap> taps;
      for (Index r = 0; r < w.size(2); ++r)
        for (Index s = 0; s < w.size(3); ++s) {
          const Index i = top + o.pad_h - r * o.dilation_h, j = left + o.pad_w - s * o.dilation_w;
          if (i % o.stride_h == 0 && j % o.stride_w == 0)
            taps.push_back({{grid.rows, grid.columns, i / o.stride_h, j / o.stride_w, 1, 1},
                            r * w.size(3) + s});
        }
      convolve(from, taps, static_cast<const float*>(panels->data()), nullptr, to, grid);
    }
}

void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Conv2dParams& params) {
  GemmWeightSums sums(dy, x, dw, params);
  sums.sum();
  sums.store(dw);
}

}  // namespace rondo::cpu::implicit_gemm

namespace rondo::cpu {

const ConvAlgorithm conv::implicit_gemm{"implicit_gemm", implicit_gemm::suits,
                                        implicit_gemm::conv2d, implicit_gemm::conv2d_backward_input,
                                        [](const Tensor& dy, const Tensor& x, const Tensor& dw,
                                           const Tensor& dbias, const Conv2dParams& params) {
                                          sum_in_f32(implicit_gemm::conv2d_backward_weight, dy, x,
                                                     dw, dbias, params);
                                        }};

}  // namespace rondo::cpu
