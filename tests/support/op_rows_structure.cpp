// Rows of the op table: reductions, shape, indexing.

#include <limits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/op_table.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

const OpInput planes{{2, 3, 2, 2}, -2, 2}, spaced{{2, 3, 2, 2}, -2, 2, true}, flat{{5}, -2, 2};
const OpInput matrix{{4, 3}, -2, 2};

void reduce_rows(std::vector<Op>& rows) {
  auto row = [&rows](std::string name, OpInput input, std::int64_t length, auto f) {
    rows.push_back({.name = std::move(name),
                    .inputs = {input},
                    .f = [f](X x) { return f(x[0]); },
                    .length = length});
  };
  using T = const Tensor&;
  row("sum", planes, 24, [](T x) { return sum(x); });
  row("sum.dims", planes, 8, [](T x) { return sum(x, {0, -1}); });
  row("mean", planes, 24, [](T x) { return mean(x); });
  row("mean.dims", planes, 4, [](T x) { return mean(x, {2, 3}, true); });
  row("var", planes, 24, [](T x) { return var(x); });
  row("var.dims", planes, 8, [](T x) { return var(x, {0, 2}, 0, true); });
  row("std", planes, 24, [](T x) { return rondo::std(x); });
  row("std.dims", planes, 8, [](T x) { return rondo::std(x, {0, 2, 3}); });
  row("prod", OpInput{{2, 5}, 0.5, 1.5}, 10, [](T x) { return prod(x); });
  row("norm", planes, 24, [](T x) { return norm(x); });
  row("norm.dims", planes, 8, [](T x) { return norm(x, {0, 2, 3}, true); });
  const OpInput lopsided{{2, 3, 2, 2}, -1.95, 2.05, true};  // all magnitudes differ
  for (double ord : {1.0, 3.0, 2.5, std::numeric_limits<double>::infinity()}) {
    row(concat("vector_norm.", ord), lopsided, 24, [ord](T x) { return vector_norm(x, ord); });
    row(concat("vector_norm.dims", ord), lopsided, 8, [ord](T x) {
      return vector_norm(x, ord, {0, 2, 3}, true);
    });
  }
  row("logsumexp", planes, 3, [](T x) { return logsumexp(x, {1}); });
  row("logsumexp.dims", planes, 24, [](T x) { return logsumexp(x, {}); });
  row("cumsum", planes, 3, [](T x) { return cumsum(x, 1); });
  row("cumsum.last", matrix, 3, [](T x) { return cumsum(x, -1); });
  row("max", spaced, 1, [](T x) { return max(x); });
  row("max.dim", spaced, 1, [](T x) { return max(x, 1).values; });
  row("min", spaced, 1, [](T x) { return min(x); });
  row("min.dim", spaced, 1, [](T x) { return min(x, -1, true).values; });
  row("sort", spaced, 1, [](T x) { return sort(x, 1, true).values; });
  row("sort.square", spaced, 1, [](T x) { return square(sort(x).values); });
  row("topk", spaced, 1, [](T x) { return topk(x, 2, 1).values; });
  row("topk.smallest", spaced, 1, [](T x) { return topk(x, 1, -1, false).values; });
}

void shape_rows(std::vector<Op>& rows) {
  // Squared, so that there is a second derivative to check.
  auto row = [&rows](std::string name, OpInput input, auto f) {
    rows.push_back(
        {.name = std::move(name), .inputs = {input}, .f = [f](X x) { return square(f(x[0])); }});
  };
  using T = const Tensor&;
  row("reshape", planes, [](T x) { return reshape(x, {3, -1}); });
  row("reshape.split", planes, [](T x) { return reshape(x, {2, 1, 3, 4, 1}); });
  row("view", flat, [](T x) { return view(x, {5, 1}); });
  row("flatten", planes, [](T x) { return flatten(x, 1); });
  row("squeeze", OpInput{{3, 1, 2}}, [](T x) { return squeeze(x, 1); });
  row("unsqueeze", planes, [](T x) { return unsqueeze(x, -1); });
  row("expand", OpInput{{3, 1, 2}}, [](T x) { return expand(x, {2, -1, 2, 2}); });
  rows.back().length = 4;
  row("permute", planes, [](T x) { return permute(x, {2, 0, -1, 1}); });
  row("transpose", matrix, [](T x) { return transpose(x, 0, -1); });
  row("flip", planes, [](T x) { return flip(x, {1, -1}); });
  row("contiguous", matrix, [](T x) { return contiguous(transpose(x, 0, 1)); });
  row("contiguous.channels_last", planes,
      [](T x) { return contiguous(x, MemoryFormat::channels_last); });
  row("clone", planes, [](T x) { return clone(x); });
  row("to", planes, [](T x) { return to(to(x, f64), x.dtype()); });
  rows.push_back({.name = "cat",
                  .inputs = {planes, {{2, 1, 2, 2}}},
                  .f =
                      [](X x) {
                        return square(cat({x[0], x[1], x[0]}, 1));
                      },
                  .length = 2});
  rows.push_back({.name = "stack", .inputs = {matrix, matrix}, .f = [](X x) {
                    return square(stack({x[0], x[1]}, -1));
                  }});
  rows.push_back({.name = "split", .inputs = {planes}, .f = [](X x) {
                    Tensors parts = split(x[0], 2, 1);
                    return Tensors{square(parts[0]), parts[1] * parts[1]};
                  }});
  rows.push_back({.name = "split.one", .inputs = {planes}, .f = [](X x) {
                    return square(split(x[0], 2, 1)[1]);  // the other outputs have no gradient
                  }});
  rows.push_back({.name = "unbind", .inputs = {planes}, .f = [](X x) {
                    Tensors parts = unbind(x[0], 1);
                    return Tensors{square(parts[0]), parts.back()};
                  }});
  rows.push_back({.name = "split.sizes", .inputs = {planes}, .f = [](X x) {
                    Tensors parts = split(x[0], {1, 2}, 1);
                    return Tensors{square(parts[0]), parts[1] * parts[1]};
                  }});
  rows.push_back({.name = "tensor_split", .inputs = {flat}, .f = [](X x) {
                    Tensors parts = tensor_split(x[0], {1, 3});
                    return Tensors{square(parts[0]), square(parts[1]), parts[2]};
                  }});
  rows.push_back({.name = "broadcast_tensors",
                  .inputs = {planes, {{3, 1, 2}}},
                  .f =
                      [](X x) {
                        Tensors all = broadcast_tensors(x);
                        return Tensors{cat({square(all[0]), square(all[1])})};
                      },
                  .length = 4});
  row("swapaxes", matrix, [](T x) { return swapaxes(x, 0, 1); });
  row("broadcast_to", OpInput{{3, 1, 2}}, [](T x) { return broadcast_to(x, {2, 3, 2, 2}); });
  rows.back().length = 4;
  row("unfold.windows", planes, [](T x) { return unfold(x, 1, 2, 1); });
  rows.back().length = 2;
  row("atleast_1d", OpInput{{}}, [](T x) { return atleast_1d(x); });
  row("atleast_2d", flat, [](T x) { return atleast_2d(x); });
  row("atleast_3d", matrix, [](T x) { return atleast_3d(x); });
  row("fliplr", planes, [](T x) { return fliplr(x); });
  row("flipud", planes, [](T x) { return flipud(x); });
  row("rot90", planes, [](T x) { return rot90(x, 1, {1, -1}); });
  const auto joined = [&](const char* name, Tensor (*join)(const Tensors&)) {
    rows.push_back(
        {.name = name, .inputs = {matrix, matrix}, .f = [join](X x) { return square(join(x)); }});
  };
  joined("hstack", hstack);
  joined("vstack", vstack);
  joined("dstack", dstack);
  joined("column_stack", column_stack);
  joined("block_diag", block_diag);
  rows.push_back({.name = "cartesian_prod",
                  .inputs = {{{2}}, {{3}}},
                  .f = [](X x) { return square(cartesian_prod(x)); },
                  .length = 3});
  rows.push_back({.name = "chunk", .inputs = {flat}, .f = [](X x) {
                    Tensors parts = chunk(x[0], 2);
                    return Tensors{parts[0], square(parts[1])};
                  }});
}

/// Their numbers are compared with PyTorch's in tests/autograd/composed_test.cpp.
void composed_rows(std::vector<Op>& rows) {
  auto row = [&rows](std::string name, std::vector<OpInput> inputs, std::int64_t length, auto f) {
    rows.push_back({.name = std::move(name),
                    .inputs = std::move(inputs),
                    .f = [f](X x) { return square(f(x)); },
                    .length = length});
  };
  const OpInput left{{3, 4}}, right{{4, 2}}, pair{{2, 3, 2}, -2, 2};
  row("outer", {flat, {{3}}}, 1, [](X x) { return outer(x[0], x[1]); });
  row("dot", {flat, flat}, 5, [](X x) { return dot(x[0], x[1]); });
  row("inner", {{{2, 4}}, {{3, 4}}}, 4, [](X x) { return inner(x[0], x[1]); });
  row("cross", {pair, {{3, 2}, -2, 2}}, 4, [](X x) { return cross(x[0], x[1], 1); });
  rows.back().scale = 16;
  row("kron", {{{2, 3}}, {{2, 2}}}, 6, [](X x) { return kron(x[0], x[1]); });
  row("vander", {{{3}, 0.5, 1.5}}, 3, [](X x) { return vander(x[0]); });
  rows.back().scale = 32;
  row("addmm", {{{2}}, left, right}, 5,
      [](X x) { return addmm(x[0], x[1], x[2], {.beta = 0.5, .alpha = 2}); });
  row("baddbmm", {{{3, 1}}, {{2, 3, 4}}, {{2, 4, 2}}}, 5,
      [](X x) { return baddbmm(x[0], x[1], x[2], {.beta = -1}); });
  row("einsum", {{{2, 3, 4}}, {{2, 5, 4}}}, 4, [](X x) { return einsum("bqd,bkd->bqk", x); });
  row("einsum.diagonal", {{{3, 3, 2}}}, 3, [](X x) { return einsum("iij->j", x); });
  row("tensordot", {{{2, 3, 4}}, {{3, 4, 2}}}, 12, [](X x) { return tensordot(x[0], x[1]); });
  row("tril", {planes}, 1, [](X x) { return tril(x[0]); });
  row("triu", {planes}, 1, [](X x) { return triu(x[0], 1); });
  row("movedim", {planes}, 1, [](X x) { return movedim(x[0], 1, -1); });
  row("unflatten", {planes}, 1, [](X x) { return unflatten(x[0], 1, {1, -1}); });
  row("roll", {planes}, 1, [](X x) { return roll(x[0], {1, -1}, {1, 3}); });
  row("logaddexp", {pair, pair}, 2, [](X x) { return logaddexp(x[0], x[1]); });
  row("lerp", {pair, pair}, 2, [](X x) { return lerp(x[0], x[1], 0.25); });
  row("hypot", {{{2, 3, 2}, 0.5, 2}, {{2, 3, 2}, 0.5, 2}}, 2,
      [](X x) { return hypot(x[0], x[1]); });
  row("nan_to_num", {planes}, 1, [](X x) { return nan_to_num(x[0]); });
  row("normalize", {{{2, 3, 2}, 0.5, 2}}, 3, [](X x) { return normalize(x[0]); });
  row("cosine_similarity", {{{2, 3, 2}, 0.5, 2}, {{2, 3, 2}, 0.5, 2}}, 6,
      [](X x) { return cosine_similarity(x[0], x[1]); });
}

void indexing_rows(std::vector<Op>& rows) {
  auto row = [&rows](std::string name, OpInput input, auto f) {
    rows.push_back({.name = std::move(name),
                    .inputs = {input},
                    .f = [f](X x) { return square(f(x[0])); },
                    .length = 3});
  };
  using T = const Tensor&;
  row("select", planes, [](T x) { return select(x, 1, -1); });
  row("narrow", planes, [](T x) { return narrow(x, 1, 1, 2); });
  row("slice", flat, [](T x) { return slice(x, 0, 1, -1, 2); });
  row("index_select", planes, [](T x) {
    return index_select(x, 1, on_device_of(x, tensor<std::int64_t>({2, 0, 2, 2})));
  });
  row("gather", matrix, [](T x) {
    return gather(x, 0, on_device_of(x, tensor<std::int64_t>({3, 0, 3, 1, 0, 3}, {2, 3})));
  });
  rows.push_back({.name = "scatter_add",
                  .inputs = {matrix, {{3, 3}, -2, 2}},
                  .f =
                      [](X x) {
                        Tensor index = tensor<std::int64_t>({3, 0, 3, 3, 3, 1}, {2, 3});
                        return square(scatter_add(x[0], 0, on_device_of(x[0], index), x[1]));
                      },
                  .length = 3});
  row("masked_fill", planes, [](T x) {
    Tensor mask = tensor<bool>({true, false}, {2, 1});
    return masked_fill(x, on_device_of(x, mask), 0.5);
  });
  row("masked_fill.spread", OpInput{{3, 1}}, [](T x) {
    return masked_fill(x, on_device_of(x, tensor<bool>({true, false}, {1, 2})), 0.5);
  });
  Tensor words = tensor<std::int64_t>({3, 0, 3, 1, 2, 3}, {2, 3});
  row("embedding", matrix, [words](T x) { return embedding(x, on_device_of(x, words)); });
}

}  // namespace

std::vector<Op> structure_rows() {
  std::vector<Op> rows;
  reduce_rows(rows);
  shape_rows(rows);
  composed_rows(rows);
  indexing_rows(rows);
  return rows;
}

}  // namespace rondo::test
