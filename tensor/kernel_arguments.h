#pragma once
// What the kernels of a device take besides tensors: the names of element-wise ops, reductions and
// scatters, and the options of the other kernels.
//
// Read next: tensor/backend.h, the kernels.

#include <cstdint>
#include <functional>
#include <string_view>

#include "tensor/activation.h"
#include "tensor/ops_table.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo {

/// y = op(x), as the op's row in tensor/ops_table.h says.
enum class UnaryOp {
#define RONDO_ROW(name, ...) name,
  RONDO_UNARY_OPS(RONDO_ROW)
#undef RONDO_ROW
};

/// y = op(a, b). The *_backward ops take (dy, saved) and return dx, in one pass.
enum class BinaryOp {
#define RONDO_ROW(name, ...) name,
  RONDO_BINARY_OPS(RONDO_ROW)
#undef RONDO_ROW
};

struct OpParams {
  double alpha = 1, beta = 0, gamma = 0;
};

/// How scatter and index_scatter join an element of y with one of x. With `set`, x replaces it.
enum class ScatterOp { add, set, prod, max, min };

/// What a scan does with the elements so far.
enum class ScanOp { sum, prod, max, min };

enum class ReductionOp { sum, prod, max, min, all, any, sum_squares };

struct Conv2dParams {
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1,
               groups = 1;
  Activation activation = Activation::none;  // forward only: of the sum with the bias
  bool operator==(const Conv2dParams&) const = default;
};
inline Conv2dParams without_activation(Conv2dParams params) {
  params.activation = Activation::none;
  return params;
}

struct Pool2dParams {
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h = 0, pad_w = 0;
  bool count_include_pad = true;  // average pooling only
};

/// The target distribution of a class index: t = (1 - label_smoothing) one_hot(index) +
/// label_smoothing / C. A target equal to ignore_index is ignored.
struct CrossEntropyParams {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
};

/// Operations after the normalisation, in the same pass over memory: y = relu?(bn(x) + residual?).
struct BatchNormFusion {
  Tensor residual;  // undefined: no residual
  bool relu = false;
  Tensor mask = {};  // batch_norm_mask_bytes bytes, filled for the backward pass; may be undefined
};

struct SgdParams {
  double dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
  bool first_step = false;  // write the momentum buffer without reading it
};

struct AdamParams {
  double beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: decay the weight, not the gradient
  bool maximize = false;
};

/// A part of one head's scores, for a function that changes them. The score of key first_key + i
/// and query first_query + j is scores[i * stride + j].
struct ScoreTile {
  std::int64_t batch, head, first_query, first_key, queries, keys, stride;
  float* scores;
  float* slopes;  // null, or where the derivatives of the new scores by the old ones go
};

/// A sparse matrix: row i has the elements offset[i] … offset[i + 1] - 1, of which number j is
/// weight[j] in column index[j]. offset (rows + 1) and index (elements): i64; all dense, on one
/// device.
struct CompressedRows {
  Tensor offset, index, weight;
  std::int64_t rows() const { return offset.numel() - 1; }
};

struct AttentionParams {
  double scale = 1;
  bool is_causal = false;  // query i attends to keys 0 … i
  Tensor mask = {};        // (N, H, L, S): boolean, or of q's dtype and added; may be undefined
  double dropout_p = 0;    // weight i in row-major order (N, H, L, S) is dropped if element i of
  Philox random = {};      // uniform(random, 0, 1) is below dropout_p
  std::function<void(const ScoreTile&)> score_mod = {};  // before mask and is_causal; may be null
};

/// The tensors of one parameter that an SGD step reads and writes (Backend::sgd_step).
struct SgdTensors {
  Tensor p, g, buffer;
};
/// The tensors of one parameter that an Adam step reads and writes (Backend::adam_step).
struct AdamTensors {
  Tensor p, g, m, v, max_v, step;
};

/// The op's name in the C++ API, as profiles show it.
std::string_view name_of(UnaryOp op);
std::string_view name_of(BinaryOp op);
std::string_view name_of(ReductionOp op);

}  // namespace rondo
