#pragma once
// Embedding: a table of vectors; the input selects rows by index.

#include <optional>

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
  void visit(Visitor& v) override { v.parameter("weight", weight); }
};

}  // namespace rondo::nn
