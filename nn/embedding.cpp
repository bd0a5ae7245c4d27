// Embedding (see embedding.h).

#include "nn/embedding.h"

#include "autograd/ops/indexing.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     EmbeddingOptions options)
    : num_embeddings(num_embeddings),
      embedding_dim(embedding_dim),
      padding_idx(options.padding_idx) {
  require<ShapeError>(num_embeddings > 0 && embedding_dim > 0, "Embedding: a table of ",
                      num_embeddings, " x ", embedding_dim);
  weight = empty({num_embeddings, embedding_dim});
  init::normal_(weight);
  if (padding_idx) {
    padding_idx = wrap_dim(*padding_idx, num_embeddings, "Embedding: padding_idx");
    init::zeros_(weight.select(0, *padding_idx));
  }
  weight.requires_grad_();
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index, padding_idx); }

}  // namespace rondo::nn
