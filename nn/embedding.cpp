// Embedding, EmbeddingBag (see embedding.h).

#include "nn/embedding.h"

#include "autograd/ops/indexing.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

namespace {

/// A table drawn from N(0, 1), with zeros in row padding_idx, which it makes non-negative.
Tensor new_table(const char* layer, std::int64_t rows, std::int64_t width,
                 std::optional<std::int64_t>& padding_idx) {
  require<ShapeError>(rows > 0 && width > 0, layer, ": a table of ", rows, " x ", width,
                      ", but both must be positive (number of rows, width of a row)");
  const Tensor table = empty({rows, width});
  init::normal_(table);
  if (padding_idx) {
    require<ShapeError>(*padding_idx >= -rows && *padding_idx < rows, layer, ": padding_idx ",
                        *padding_idx, " is not a row of the table (valid: ", -rows, " to ",
                        rows - 1, ")");
    if (*padding_idx < 0) *padding_idx += rows;
    init::zeros_(table.select(0, *padding_idx));
  }
  return table.requires_grad_();
}

}  // namespace

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     EmbeddingOptions options)
    : num_embeddings(num_embeddings),
      embedding_dim(embedding_dim),
      padding_idx(options.padding_idx),
      weight(new_table("Embedding", num_embeddings, embedding_dim, padding_idx)) {}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index, padding_idx); }

EmbeddingBag::EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim,
                           EmbeddingBagOptions options)
    : num_embeddings(num_embeddings),
      embedding_dim(embedding_dim),
      options(options),
      weight(new_table("EmbeddingBag", num_embeddings, embedding_dim, this->options.padding_idx)) {}

Tensor EmbeddingBag::forward(const Tensor& index) { return run(index, {}, {}); }

Tensor EmbeddingBag::operator()(const Tensor& index, const Tensor& offsets,
                                const Tensor& per_sample_weights) {
  return call([&](const auto&... inputs) { return run(inputs...); }, index, offsets,
              per_sample_weights);
}

Tensor EmbeddingBag::run(const Tensor& index, const Tensor& offsets,
                         const Tensor& per_sample_weights) {
  return embedding_bag(weight, index, offsets,
                       {.mode = options.mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options.include_last_offset,
                        .padding_idx = options.padding_idx});
}

}  // namespace rondo::nn
