#include "autograd/ops/embedding_bag.h"

#include <limits>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Where the bags begin in the flat index.
Tensor starts_of(const Tensor& index, const Tensor& offsets, bool include_last_offset) {
  require<ShapeError>((index.dim() == 2) != offsets.defined() && index.dim() <= 2 &&
                          (!offsets.defined() || offsets.dim() == 1),
                      "embedding_bag: expected an index (B, L), or an index (N) with offsets (B); "
                      "the index is ",
                      index.shape());
  if (!offsets.defined()) {
    const std::int64_t length = index.size(1);
    return arange(index.size(0), {.dtype = i64, .device = index.device()}) *
           scalar(length, {.dtype = i64, .device = index.device()});
  }
  require<DTypeError>(offsets.dtype() == i64 || offsets.dtype() == i32,
                      "embedding_bag: the offsets are ", offsets.dtype(), ", not i64 or i32");
  require<ShapeError>(!include_last_offset || offsets.numel() > 0,
                      "embedding_bag: include_last_offset needs at least one offset");
  if (offsets.device().is_cpu()) {  // elsewhere it would wait for the device
    std::int64_t last = 0;
    const std::vector<std::int64_t> values = offsets.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      require<ShapeError>(
          (i > 0 || values[0] == 0) && values[i] >= last && values[i] <= index.numel(),
          "embedding_bag: offset ", values[i], " at ", i,
          "; offsets start with 0, do not decrease, and end at ", index.numel());
      last = values[i];
    }
  }
  return to(include_last_offset ? narrow(offsets, 0, 0, offsets.numel() - 1) : offsets, i64);
}

}  // namespace

Tensor embedding_bag(const Tensor& weight, const Tensor& index, const Tensor& offsets,
                     const EmbeddingBagOptions& options) {
  const OpRange op("embedding_bag");
  const bool is_weighted = options.per_sample_weights.defined();
  require(!is_weighted || options.mode == BagMode::sum,
          "embedding_bag: per_sample_weights need the mode sum");
  require<ShapeError>(!is_weighted || options.per_sample_weights.shape() == index.shape(),
                      "embedding_bag: per_sample_weights must have the shape of the index, ",
                      index.shape());
  const Tensor starts = starts_of(index, offsets, options.include_last_offset);
  const std::int64_t bags = starts.numel();
  const Tensor flat = reshape(index, {-1});
  Tensor rows = embedding(weight, flat, options.padding_idx);  // (n, D)
  const std::int64_t n = rows.size(0), width = rows.size(1);
  require<ShapeError>(bags > 0 || n == 0 || options.include_last_offset, "embedding_bag: ", n,
                      " indices, but no bag");
  if (is_weighted) rows = rows * reshape(options.per_sample_weights, {n, 1});
  const TensorOptions integers{.dtype = i64, .device = index.device()};
  if (n == 0 || bags == 0)  // zeros, with a gradient of 0
    return index_add(zeros({bags, width}, rows.options()), 0, zeros({0}, integers),
                     narrow(rows, 0, 0, 0));

  // The bag of each element is the number of bags that have begun, minus 1.
  const Tensor begins =
      scatter_add(zeros({n + 1}, integers), 0, starts, ones(starts.shape(), integers));
  const Tensor bag = cumsum(narrow(begins, 0, 0, n), 0) - 1;
  Tensor counts = ones({n}, integers);
  const auto leave_out = [&](const Tensor& elements) {
    counts = masked_fill(counts, elements, 0);
    rows = masked_fill(rows, unsqueeze(elements, 1), 0.0);
  };
  if (options.padding_idx)
    leave_out(flat == wrap_dim(*options.padding_idx, weight.size(0), "embedding_bag"));
  if (options.include_last_offset && offsets.defined())  // the elements after the last bag
    leave_out(arange(n, integers) >= to(narrow(offsets, 0, offsets.numel() - 1, 1), i64));
  const Tensor sizes = unsqueeze(scatter_add(zeros({bags}, integers), 0, bag, counts), 1);
  if (options.mode == BagMode::max) {
    // Each bag as a row of its own length, filled up with -inf.
    const std::int64_t longest =
        max(scatter_add(zeros({bags}, integers), 0, bag, ones({n}, integers))).item<std::int64_t>();
    const Tensor place = arange(n, integers) - index_select(starts, 0, bag);
    const Tensor cell = bag * scalar(longest, integers) + place;
    const Tensor source =
        scatter_add(zeros({bags * longest}, integers), 0, cell, counts * (arange(n, integers) + 1));
    const Tensor filled = index_select(rows, 0, maximum(source - 1, zeros({}, integers)));
    const Tensor lowest =
        masked_fill(filled, unsqueeze(source == 0, 1), -std::numeric_limits<double>::infinity());
    const Tensor largest = max(reshape(lowest, {bags, longest, width}), 1).values;
    return masked_fill(largest, sizes == 0, 0.0);
  }
  const Tensor sums = index_add(zeros({bags, width}, rows.options()), 0, bag, rows);
  return options.mode == BagMode::sum ? sums : sums / masked_fill(sizes, sizes == 0, 1);
}

}  // namespace rondo
