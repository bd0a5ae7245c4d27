#pragma once
// Sums, means and maxima of rows of a table.

#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace rondo {

enum class BagMode : std::uint8_t { sum, mean, max };

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  Tensor per_sample_weights = {};                // of index's shape; a factor for each row, for sum
  bool include_last_offset = false;              // the last offset is the end of the last bag
  std::optional<std::int64_t> padding_idx = {};  // this row does not count, and gets no gradient
};

/// Rows of weight (V, D) picked by index (i64 or i32), joined bag by bag: (number of bags, D). A
/// bag is a row of an index (B, L); or, for an index (N), the elements from its offset (i64 or i32,
/// starting with 0 and not decreasing) to the next one. An empty bag gives zeros. Throws ShapeError
/// for an index outside the table, for offsets that are not as above (on the CPU), and for other
/// shapes; Error for weights in a mode other than sum. max waits for the device. Agrees with
/// torch.nn.functional.embedding_bag, whose arguments max_norm, scale_grad_by_freq and sparse are
/// missing.
Tensor embedding_bag(const Tensor& weight, const Tensor& index, const Tensor& offsets = {},
                     const EmbeddingBagOptions& options = {});

}  // namespace rondo
