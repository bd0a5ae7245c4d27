#include "tensor/cpu/conv/winograd.h"

#include <atomic>
#include <string_view>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/prepared_weights.h"
#include "tensor/cpu/strided.h"
#include "tensor/environment.h"
#include "tensor/scratch.h"

namespace rondo::cpu::winograd {
namespace {

using Index = std::int64_t;
constexpr Index points = 36, tile = 4;  // for the normal tiles, not the small ones

Index round_up(Index n, Index to) { return (n + to - 1) / to * to; }

/// The tiles that cover an output's planes, numbered image by image, row by row.
struct Tiles {
  Index size, rows, columns, count;
  Tiles(Index images, Index height, Index width, Index size = tile)
      : size(size),
        rows((height + size - 1) / size),
        columns((width + size - 1) / size),
        count(images * rows * columns) {}
  struct At {
    Index image, top, left;
  };
  At operator[](Index t) const {
    return {t / (rows * columns), t / columns % rows * size, t % columns * size};
  }
};

/// The images of a tensor, and the functions that read and write their tiles.
struct Images {
  WinogradPlane plane;
  Index bytes;
  char* data;
  const WinogradTiles& kernels;

  explicit Images(const Tensor& x, bool small = false)
      : plane{x.size(2), x.size(3), x.size(1)},
        bytes(x.size(1) * x.size(2) * x.size(3) * static_cast<Index>(size_of(x.dtype()))),
        data(static_cast<char*>(x.data_ptr())),
        kernels(small                     ? cpu::kernels().winograd.small
                : x.dtype() == DType::f32 ? cpu::kernels().winograd.f32
                                          : cpu::kernels().winograd.bf16) {}
  char* operator[](Index image) const { return data + image * bytes; }
  Index channels() const { return plane.channels; }
};

/// A block of tiles between the transforms (isa/table.h).
struct TileBlock {
  float* data;
  Index points = winograd::points;

  /// The floats from one vector of channels to the next; and the floats of all channels.
  static Index group(Index points) { return points * kernels().winograd.point(); }
  static Index floats(Index channels, Index points = winograd::points) {
    return channels / kernels().winograd.lanes * group(points);
  }
  float* tile(Index i) const { return data + i * kernels().winograd.tile(); }
  float* point(Index p) const { return data + p * kernels().winograd.point(); }
  /// The rows of a point, starting at a channel.
  Packed packed(Index p, Index channel = 0) const {
    return {point(p) + floats(channel, points), group(points)};
  }
};

/// The weights in the form that a convolution reads. Its filters are those of w, or in the backward
/// pass those of w's channels, rotated by 180 degrees.
struct Filters {
  const Tensor& w;
  bool backward;
  Index groups;
  const WinogradTiles& kernels;

  // Of one group.
  Index filters() const { return backward ? w.size(1) : w.size(0) / groups; }
  Index depth() const { return backward ? w.size(0) / groups : w.size(1); }
  /// G w Gᵀ in panels: (points, groups, filters / panel, depth, panel).
  StoragePtr transformed() const {
    using enum WeightForm::Kind;
    const std::size_t bytes =
        static_cast<std::size_t>(kernels.points() * w.size(0) * w.size(1)) * sizeof(float);
    const auto kind = kernels.m != tile ? winograd_small : backward ? winograd_turned : winograd;
    return prepared_weight(w, {.kind = kind, .groups = groups}, bytes,
                           [this](void* u) { transform(static_cast<float*>(u)); });
  }

 private:
  void transform(float* u) const {
    const Tensor values = as_f32(w);
    const float* data = values.data_ptr<float>();
    const Index width = cpu::kernels().packed.panel(filters());
    const Index stride = w.stride(backward ? 1 : 0), depth_stride = w.stride(backward ? 0 : 1);
    const Index group_stride = w.size(0) / groups * w.stride(0);
    const Index rows = depth(), columns = filters(), all = groups * rows * columns;
    parallel_for(all / width, kernels.points() * all, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const Index panel = i / rows * width, c = i % rows;  // panel: its first filter, of all
        const Index group = panel / columns, first = panel % columns;
        kernels.weight(data + group * group_stride + first * stride + c * depth_stride, stride,
                       backward, width, u + panel * rows + c * width, all);
      }
    });
  }
};

/// y = x ⋆ filters + bias; y's first pixel reads x from (-pad_h, -pad_w) on.
class Convolution {
 public:
  /// requires: all tiles fit into one block, or the tiles are not the small ones.
  Convolution(const Tensor& x, const Tensor& w, bool backward, const Tensor& bias, const Tensor& y,
              Index pad_h, Index pad_w, Index groups, bool small = false)
      : x_(x, small),
        y_(y, small),
        bias_(bias.defined() ? bias.data_ptr<float>() : nullptr),
        pad_h_(pad_h),
        pad_w_(pad_w),
        depth_(x.size(1) / groups),
        filters_(y.size(1) / groups),
        weights_(Filters{w, backward, groups, x_.kernels}.transformed()),
        tiles_(x.size(0), y_.plane.height, y_.plane.width, x_.kernels.m),
        points_(x_.kernels.points()),
        threads_(static_cast<int>(threads_for(tiles_.count * points_ * y_.channels()))) {}

  void run() const {
    threads_ > 1 && tiles_.count <= winograd_tiles ? convolve_together() : convolve_apart();
  }

 private:
  Index in_floats() const { return TileBlock::floats(x_.channels(), points_); }
  Index floats() const { return in_floats() + TileBlock::floats(y_.channels(), points_); }
  TileBlock in(float* scratch) const { return {scratch, points_}; }
  TileBlock out(float* scratch) const { return {scratch + in_floats(), points_}; }

  void load(Index t, const TileBlock& in, Index i) const {
    const auto at = tiles_[t];
    x_.kernels.input(x_[at.image], x_.plane, at.top - pad_h_, at.left - pad_w_, in.tile(i));
  }
  void store(const TileBlock& out, Index i, Index t) const {
    const auto at = tiles_[t];
    y_.kernels.output(out.tile(i), y_.plane, at.top, at.left, bias_, y_[at.image]);
  }
  /// Multiplies `columns` columns of point p, starting at `first`, for `count` tiles, group by
  /// group. Both are multiples of a panel.
  void multiply(Index p, const TileBlock& in, const TileBlock& out, Index count, Index first,
                Index columns) const {
    const PackedKernels& k = kernels().packed;
    const auto* u = static_cast<const float*>(weights_->data());
    for (const Index end = first + columns; first < end;) {
      const Index group = first / filters_;
      Index some = std::min(end, (group + 1) * filters_) - first;
      // An odd number of vectors has panels of one vector; the kernel must see an odd number, too.
      if (k.panel(some) != k.panel(filters_)) some -= k.lanes;
      k.multiply(in.packed(p, group * depth_), u + (p * y_.channels() + first) * depth_, count,
                 depth_, some, false, out.point(p) + TileBlock::floats(first, points_),
                 TileBlock::group(points_));
      first += some;
    }
  }

  /// Each thread processes its share of the tiles, one block at a time.
  void convolve_apart() const {
    const int threads = static_cast<int>(std::min<Index>(threads_, tiles_.count));
    const Scratch scratch(threads * floats());
    parallel_shares(tiles_.count, threads, [&](int share, Index begin, Index end) {
      float* const part = scratch.data() + share * floats();
      const TileBlock in = this->in(part), out = this->out(part);
      if (end - begin < winograd_tiles) std::fill(in.data, out.data, 0.f);
      for (Index t = begin; t < end; t += winograd_tiles) {
        const Index count = std::min(winograd_tiles, end - t);
        for (Index i = 0; i < count; ++i) load(t + i, in, i);
        for (Index p = 0; p < points_; ++p) multiply(p, in, out, count, 0, y_.channels());
        for (Index i = 0; i < count; ++i) store(out, i, t + i);
      }
    });
  }

  /// All threads process a single block together: each reads its part of the weights, which takes
  /// most of the time here.
  void convolve_together() const {
    const Scratch scratch(floats());
    const TileBlock in = this->in(scratch.data()), out = this->out(scratch.data());
    parallel_shares(threads_, threads_, [&](int share, Index, Index) {
      const auto from = [&](Index n) { return n * share / threads_; };
      const auto to = [&](Index n) { return n * (share + 1) / threads_; };
      for (Index t = from(tiles_.count); t < to(tiles_.count); ++t) load(t, in, t);
      for (Index p = from(points_); p < to(points_); ++p) clear_after(tiles_.count, in, p);
    });
    const Index panel = kernels().packed.panel(filters_), panels = y_.channels() / panel;
    parallel_shares(points_ * panels, threads_, [&](int, Index begin, Index end) {
      while (begin < end) {
        const Index p = begin / panels, first = begin % panels;
        const Index some = std::min(panels - first, end - begin);
        multiply(p, in, out, tiles_.count, first * panel, some * panel);
        begin += some;
      }
    });
    parallel_shares(tiles_.count, threads_, [&](int, Index begin, Index end) {
      for (Index t = begin; t < end; ++t) store(out, t, t);
    });
  }
  /// Clears the rows of a point after the first `count`, because they are multiplied as well.
  void clear_after(Index count, const TileBlock& in, Index p) const {
    const Index lanes = kernels().winograd.lanes;
    for (Index c = 0; c < x_.channels(); c += lanes)
      std::fill_n(in.point(p) + TileBlock::floats(c, points_) + count * lanes,
                  (winograd_tiles - count) * lanes, 0.f);
  }

  Images x_, y_;
  const float* bias_;
  Index pad_h_, pad_w_;
  Index depth_, filters_;  // of one group
  StoragePtr weights_;
  Tiles tiles_;
  Index points_;
  int threads_;
};

/// Σ over tiles of (Bᵀ x B) ⊙ (A dy Aᵀ): for each point a matrix (channels, filters of the
/// channel's group).
class WeightSums {
 public:
  WeightSums(const Tensor& dy, const Tensor& x, const Conv2dParams& params)
      : x_(x),
        dy_(dy),
        params_(params),
        tiles_(x.size(0), dy.size(2), dy.size(3)),
        rows_(x.size(1)),
        columns_(dy.size(1) / params.groups),
        group_rows_(rows_ / params.groups),
        size_(points * rows_ * columns_) {}

  /// Each thread has its own sums, which stay in its cache, over its share of the tiles.
  void sum_apart() {
    threads_ = static_cast<int>(
        std::min<Index>(threads_for(tiles_.count * points * dy_.channels()), tiles_.count));
    allocate(threads_, threads_);
    parallel_shares(tiles_.count, threads_, [&](int share, Index begin, Index end) {
      for (Index t = begin; t < end; t += winograd_tiles) {
        const Index count = std::min(winograd_tiles, end - t);
        load(t, count, share);
        for (Index p = 0; p < points; ++p)
          for (Index row = 0; row < rows_; row += group_rows_)
            add(share, share, p, row, group_rows_, count, t == begin);
      }
    });
  }

  /// All threads transform some blocks of tiles; then each adds all of them to its part of the
  /// sums. For sums that are too large for a core's cache.
  void sum_together() {
    constexpr Index piece = 16;  // channels
    const Index pieces = rows_ / piece,
                blocks = (tiles_.count + winograd_tiles - 1) / winograd_tiles;
    const Index together = std::min<Index>(16, blocks);
    allocate(1, together);
    for (Index first = 0; first < blocks; first += together) {
      const Index now = std::min(together, blocks - first);
      auto count = [&](Index i) {
        return std::min(winograd_tiles, tiles_.count - (first + i) * winograd_tiles);
      };
      parallel_for(now, now * size_, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) load((first + i) * winograd_tiles, count(i), i);
      });
      parallel_for(points * pieces, size_, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          const Index p = i / pieces, row = i % pieces * piece;
          for (Index block = 0; block < now; ++block)
            add(0, block, p, row, piece, count(block), first + block == 0);
        }
      });
    }
  }

  /// dw = Gᵀ (the sum of the threads' sums) G.
  void transform(const Tensor& dw) const {
    float* out = dw.data_ptr<float>();
    parallel_for(rows_, size_, [&](Index begin, Index end) {
      for (Index c = begin; c < end; ++c) {
        for (int share = 1; share < threads_; ++share)
          for (Index p = 0; p < points; ++p) {
            const Index at = (p * rows_ + c) * columns_;
            for (Index i = at; i < at + columns_; ++i) sums(0)[i] += sums(share)[i];
          }
        const Index filter = c / group_rows_ * columns_, channel = c % group_rows_;
        kernels().winograd.weight_gradient(sums(0) + c * columns_, rows_ * columns_, columns_,
                                           out + filter * dw.stride(0) + channel * dw.stride(1),
                                           dw.stride(0));
      }
    });
  }

 private:
  void allocate(Index sums, Index blocks) {
    sums_.emplace(sums * size_);
    blocks_.emplace(blocks * block_floats());
  }
  Index x_floats() const { return TileBlock::floats(rows_); }
  Index block_floats() const { return x_floats() + TileBlock::floats(dy_.channels()); }
  float* sums(Index share) const { return sums_->data() + share * size_; }
  TileBlock x_block(Index i) const { return {blocks_->data() + i * block_floats()}; }
  TileBlock dy_block(Index i) const { return {x_block(i).data + x_floats()}; }
  /// Adds the products of `count` tiles of a block to the sums of point p and of some rows, which
  /// are channels of one group; `first`: overwrites them.
  void add(Index share, Index block, Index p, Index row, Index rows, Index count,
           bool first) const {
    kernels().packed.accumulate(
        x_block(block).packed(p, row), dy_block(block).packed(p, row / group_rows_ * columns_),
        count, rows, columns_, first, sums(share) + (p * rows_ + row) * columns_, columns_);
  }
  /// Transforms `count` tiles, starting at tile t, into a block.
  void load(Index t, Index count, Index block) const {
    for (Index i = 0; i < count; ++i) {
      const auto at = tiles_[t + i];
      x_.kernels.input(x_[at.image], x_.plane, at.top - params_.pad_h, at.left - params_.pad_w,
                       x_block(block).tile(i));
      dy_.kernels.gradient(dy_[at.image], dy_.plane, at.top, at.left, dy_block(block).tile(i));
    }
  }

  Images x_, dy_;
  Conv2dParams params_;
  Tiles tiles_;
  Index rows_, columns_, group_rows_, size_;
  int threads_ = 1;
  std::optional<Scratch> sums_, blocks_;
};

bool is_possible(const Conv2dProblem& p) {
  const Conv2dParams& o = p.params;
  return p.r == 3 && p.s == 3 && o.stride_h == 1 && o.stride_w == 1 && o.dilation_h == 1 &&
         o.dilation_w == 1 && p.c % (16 * o.groups) == 0 && p.k % (16 * o.groups) == 0;
}

}  // namespace

bool suits(const Conv2dProblem& p) {
  if (!is_possible(p)) return false;
  // The cost in multiplications for a pair of channels. A transformed weight costs about 400. A
  // tile costs 36, with tiles rounded up to a fixed number of rows, plus its two transforms, which
  // the channels and filters of a group share.
  const Index tiles = Tiles(p.n, p.p, p.q).count;
  const Index rows = round_up(tiles, winograd_tiles / 2);
  const Index cost = 400 + 42 * rows + (180 * tiles / p.k + 130 * tiles / p.c) * p.params.groups;
  const Index direct = 9 * p.n * p.p * p.q * 8 / 10;
  return cost < (p.dtype == DType::bf16 && has_bf16_products() ? direct / 2 : direct);
}

bool suits_small_tiles(const Conv2dProblem& p) {
  constexpr Index cache = 1 << 18;  // floats
  if (std::string_view(kernels().name) != "avx2" || p.pass != Conv2dProblem::Pass::forward ||
      p.dtype != DType::f32 || !is_possible(p) || p.params.groups > 1 || p.k * p.c * 9 < cache)
    return false;
  const Index tiles = Tiles(p.n, p.p, p.q, 2).count, products = 16 * tiles;
  return tiles > 8 && tiles <= winograd_tiles && 9 * p.n * p.p * p.q >= products * 8 / 5;
}

void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params) {
  Convolution(x, w, false, bias, y, params.pad_h, params.pad_w, params.groups).run();
}

void conv2d_small_tiles(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                        const Conv2dParams& params) {
  Convolution(x, w, false, bias, y, params.pad_h, params.pad_w, 1, true).run();
}

void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& params) {
  Convolution(dy, w, true, {}, dx, 2 - params.pad_h, 2 - params.pad_w, params.groups).run();
}

void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Conv2dParams& params) {
  constexpr Index cache = 1 << 18;  // floats of the sums that fit into a core's second-level cache
  WeightSums sums(dy, x, params);
  if (points * dw.size(1) * dy.size(1) <= cache) {
    sums.sum_apart();
  } else {
    sums.sum_together();
  }
  sums.transform(dw);
}

}  // namespace rondo::cpu::winograd

namespace rondo::cpu {

const ConvAlgorithm conv::winograd{
    "winograd", winograd::suits,
    [](const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
       const Conv2dParams& params) { winograd::conv2d(x, w, as_f32(bias), y, params); },
    winograd::conv2d_backward_input,
    [](const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& dbias,
       const Conv2dParams& params) {
      sum_in_f32(winograd::conv2d_backward_weight, dy, x, dw, dbias, params);
    }};

const ConvAlgorithm conv::winograd_2x2{"winograd_2x2", winograd::suits_small_tiles,
                                       winograd::conv2d_small_tiles, nullptr, nullptr};

}  // namespace rondo::cpu
