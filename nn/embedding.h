#pragma once
// Embedding and EmbeddingBag: a table of vectors; the input selects rows by index.

#include <optional>

#include "autograd/ops/embedding_bag.h"
#include "nn/module.h"

namespace rondo::nn {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  // this row starts as zeros and gets no gradient
};

/// index i64 (any shape) to index.shape + (embedding_dim); weight (num_embeddings, embedding_dim)
/// drawn from N(0, 1). Throws ShapeError for an index outside the table. A negative padding_idx
/// counts from the end. Agrees with torch.nn.Embedding.
struct Embedding : Module {
  std::int64_t num_embeddings, embedding_dim;
  std::optional<std::int64_t> padding_idx;
  Tensor weight;

  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, EmbeddingOptions options = {});
  Tensor forward(const Tensor& index) override;
  std::string extra_repr() const override;
  void visit(Visitor& v) override { v.parameter("weight", weight); }
};

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;
  std::optional<std::int64_t> padding_idx = {};  // this row starts as zeros and does not count
};

/// Sums, means or maxima of the rows that an index selects, bag by bag (autograd/ops/
/// embedding_bag.h). weight as in Embedding. Agrees with torch.nn.EmbeddingBag.
struct EmbeddingBag : Module {
  std::int64_t num_embeddings, embedding_dim;
  EmbeddingBagOptions options;
  Tensor weight;

  EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim,
               EmbeddingBagOptions options = {});
  /// Each row of index (B, L) is a bag.
  Tensor forward(const Tensor& index) override;
  std::string extra_repr() const override;
  using Module::operator();
  /// The bags of index (N) start at `offsets`, which is undefined for an index (B, L).
  Tensor operator()(const Tensor& index, const Tensor& offsets,
                    const Tensor& per_sample_weights = {});
  void visit(Visitor& v) override { v.parameter("weight", weight); }

 private:
  Tensor run(const Tensor& index, const Tensor& offsets, const Tensor& per_sample_weights);
};

}  // namespace rondo::nn
