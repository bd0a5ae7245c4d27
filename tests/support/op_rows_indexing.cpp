// Rows of the op table: writing and reading at indices, running and order statistics, resampling,
// and the shapes of composed.h.

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/interpolate.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/sampling.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/search.h"
#include "autograd/ops/statistics.h"
#include "autograd/ops/subscript.h"
#include "support/op_table.h"
#include "tensor/creation.h"

namespace rondo::test {

std::vector<Op> index_rows() {
  std::vector<Op> rows;
  using X = const Tensors&;
  using T = const Tensor&;
  const auto add = [&](const char* name, std::vector<OpInput> inputs, OpFunction f,
                       std::int64_t length = 3, double scale = 1) {
    rows.push_back({.name = name,
                    .inputs = std::move(inputs),
                    .f = std::move(f),
                    .length = length,
                    .scale = scale});
  };
  const auto like = [](T x, std::vector<std::int64_t> values, const Dims& sizes) {
    return on_device_of(x, tensor(values, sizes));
  };
  const OpInput planes{{2, 3, 2, 2}}, matrix{{4, 3}}, spaced{{2, 3, 2, 2}, -2, 2, true},
      apart{{4, 3}, -2, 2, true}, sources{{2, 3}, -2, 2};

  const auto index = [=](T x) { return like(x, {3, 0, 2, 1, 3, 0}, {2, 3}); };
  const auto repeated = [=](T x) { return like(x, {3, 0, 3, 3, 3, 1}, {2, 3}); };
  add("scatter", {matrix, sources}, [=](X x) { return scatter(x[0], 0, index(x[0]), x[1]); });
  add("scatter.value", {matrix}, [=](X x) { return scatter(x[0], 0, index(x[0]), 0.5); });
  for (const char* reduce : {"sum", "mean", "prod"})
    rows.push_back({.name = concat("scatter_reduce.", reduce),
                    .inputs = {matrix, sources},
                    .f = [=](X x) { return scatter_reduce(x[0], 0, repeated(x[0]), x[1], reduce); },
                    .length = 8,
                    .scale = 4});
  add("scatter_reduce.amax", {apart, {{2, 3}, -2.5, 2.5, true}},
      [=](X x) { return scatter_reduce(x[0], 0, repeated(x[0]), x[1], "amax"); });
  add("scatter_reduce.amin", {apart, {{2, 3}, -2.5, 2.5, true}}, [=](X x) {
    return scatter_reduce(x[0], 0, repeated(x[0]), x[1], "amin", {.include_self = false});
  });
  const auto slices = [=](T x) { return like(x, {2, 0}, {2}); };
  add("index_add", {planes, {{2, 2, 2, 2}}},
      [=](X x) { return index_add(x[0], 1, slices(x[0]), x[1], {.alpha = 0.5}); });
  add("index_copy", {planes, {{2, 2, 2, 2}}},
      [=](X x) { return index_copy(x[0], 1, slices(x[0]), x[1]); });
  add("index_fill", {planes}, [=](X x) { return index_fill(x[0], 1, slices(x[0]), 0.5); });

  add("index.basic", {planes}, [](X x) {
    return x[0][{Ellipsis, None, Slice(None, None, 2), -1}];
  });
  add("index.tensors", {planes}, [=](X x) {
    return rondo::index(x[0], {like(x[0], {1, 0, 1}, {3}), Slice(), like(x[0], {0}, {1})});
  });
  add("index.mask", {planes}, [](X x) {
    return x[0][on_device_of(x[0], tensor<bool>({true, false, true, true, true, false}, {2, 3}))];
  });
  add("index_put", {planes, {{2, 2}}}, [=](X x) {
    return index_put(x[0], {1, like(x[0], {2, -3}, {2}), Slice(), 0}, x[1]);
  });
  add("index_put.add", {planes, {{3, 2}}}, [=](X x) {
    return index_put(x[0], {0, like(x[0], {2, 0, 2}, {3}), Slice(), 0}, x[1], true);
  });
  add("masked_select", {planes}, [](X x) {
    return masked_select(x[0], on_device_of(x[0], tensor<bool>({true, false}, {2, 1})));
  });
  add("masked_scatter", {planes, {{14}}}, [](X x) {
    return masked_scatter(x[0], on_device_of(x[0], tensor<bool>({true, false}, {2, 1})), x[1]);
  });
  add("take", {planes}, [=](X x) { return take(x[0], like(x[0], {3, -1, 0, 3}, {2, 2})); });
  add("take_along_dim", {matrix}, [=](X x) {
    return take_along_dim(x[0], like(x[0], {3, 0, 3, 1}, {4, 1}), 0);
  });
  add("diagonal", {planes}, [](X x) { return diagonal(x[0], 1, 0, 1); });

  add("amax", {spaced}, [](X x) { return amax(x[0], {1, 3}); });
  add("amin", {spaced}, [](X x) { return amin(x[0], {0}, true); });
  add(
      "cumprod", {{{2, 5, 2, 2}, -1.5, 1.5}}, [](X x) { return cumprod(x[0], 1); }, 30, 8);
  add(
      "logcumsumexp", {planes}, [](X x) { return logcumsumexp(x[0], 1); }, 12, 4);
  add("cummax", {spaced}, [](X x) { return cummax(x[0], 1).values; });
  add("cummin", {spaced}, [](X x) { return cummin(x[0], 1).values; });
  add("kthvalue", {spaced}, [](X x) { return kthvalue(x[0], 2, 1).values; });
  add("median", {spaced}, [](X x) { return median(x[0]); });
  add("median.dim", {spaced}, [](X x) { return median(x[0], 1).values; });
  add("nansum", {planes}, [](X x) { return nansum(x[0], {1}); });
  add(
      "nanmean", {planes},
      [](X x) {
        return nanmean(x[0], {1, 2});
      },
      6);
  add(
      "cov", {matrix}, [](X x) { return cov(x[0]); }, 12, 4);
  add(
      "corrcoef", {matrix}, [](X x) { return corrcoef(x[0]); }, 24, 32);
  add(
      "diff", {planes}, [](X x) { return square(diff(x[0], {.n = 2, .dim = 1})); }, 6, 8);
  add(
      "trapezoid", {planes, {{3}}}, [](X x) { return trapezoid(x[0], {.x = x[1], .dim = 1}); }, 12,
      4);
  add(
      "cumulative_trapezoid", {planes},
      [](X x) { return square(cumulative_trapezoid(x[0], {.dx = 0.5, .dim = 1})); }, 6, 4);
  add("quantile", {apart}, [](X x) {
    // f32 and f64 only; the 16-bit layouts are computed in f32.
    const DType wide = promote(x[0].dtype(), f32);
    return quantile(x[0].to(wide), 0.3, {.dim = 0}).to(x[0].dtype());
  });
  add(
      "interpolate.bilinear", {planes},
      [](X x) {
        return interpolate(x[0], {.size = {3, 5}, .mode = "bilinear"});
      },
      12, 2);
  add(
      "interpolate.bicubic", {{{1, 2, 4, 4}}},
      [](X x) {
        return interpolate(x[0], {.size = {3, 5}, .mode = "bicubic"});
      },
      64, 4);
  add(
      "interpolate.nearest", {planes}, [](X x) { return interpolate(x[0], {.scale_factor = {2}}); },
      8);
  add(
      "grid_sample", {planes, {{2, 2, 2, 2}, -0.4, 0.4, true}},
      [](X x) { return grid_sample(x[0], x[1]); }, 24, 4);
  add(
      "affine_grid", {{{2, 2, 3}}},
      [](X x) {
        return affine_grid(x[0], {2, 1, 3, 4});
      },
      8);
  add("gumbel_softmax", {matrix}, [](X x) {
    Generator generator(5);
    return gumbel_softmax(x[0], {.tau = 2}, generator);
  });

  add("diag", {{{3}}}, [](X x) { return diag(x[0], -1); });
  add("diag_embed", {matrix}, [](X x) { return diag_embed(x[0], 1); });
  add("meshgrid", {{{3}}, {{2}}}, [](X x) { return meshgrid({x[0] * 2, x[1] * 3}); });
  add("trace", {matrix}, [](X x) { return trace(x[0]); });
  add("tile", {planes}, [](X x) { return tile(x[0], {2, 1}); });
  add("repeat_interleave", {planes}, [](X x) { return repeat_interleave(x[0], 2, 1); });
  add("repeat_interleave.each", {planes}, [=](X x) {
    return repeat_interleave(x[0], like(x[0], {2, 0, 1}, {3}), 1);
  });
  add("clip", {spaced}, [](X x) { return clip(x[0], -0.7, 0.3); });
  add("clamp_min", {spaced}, [](X x) { return clamp_min(x[0], 0.3); });
  add("clamp_max", {spaced}, [](X x) { return clamp_max(x[0], 0.3); });
  add("mm", {matrix, {{3, 2}}}, [](X x) { return mm(x[0], x[1]); });
  add("mv", {matrix, {{3}}}, [](X x) { return mv(x[0], x[1]); });
  add(
      "cdist", {matrix, {{2, 3}, 2, 4}}, [](X x) { return cdist(x[0], x[1]); }, 12, 16);
  return rows;
}

}  // namespace rondo::test
