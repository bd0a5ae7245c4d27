#include "tensor/cuda/attention_plan.h"

#include <limits>
#include <utility>

namespace rondo::cuda {
namespace {

enum AttentionUid : std::int64_t {
  attention_q = 1,
  attention_kt,  // k and v as right factors, transposed: the same memory
  attention_v,
  attention_vt,
  attention_y,
  attention_lse,
  attention_dy,
  attention_dq,
  attention_dk,
  attention_dv,
  attention_delta,   // Σ dy y of each query
  attention_sum_dq,  // dq in f32, which engines clear and add to
  attention_scale,   // numbers on the host
  attention_one,
  attention_excluded,
  attention_between,  // this and larger numbers: never stored in memory
};

Dims transposed(Dims dims) {
  std::swap(dims[2], dims[3]);
  return dims;
}

/// x's strides; in dimensions of size 1, which may have any, a multiple of 16 bytes.
Dims strides_for_cudnn(const Tensor& x) {
  Dims strides = x.strides();
  for (std::int64_t d = 0; d < 3; ++d)
    if (x.size(d) == 1) strides[d] = x.size(3);
  return strides;
}

class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionCall& call)
      : c_(call),
        type_(cudnn_type(call.q.dtype(), "attention")),
        scores_{call.q.size(0), call.q.size(1), call.q.size(2), call.k.size(2)},
        rows_{call.q.size(0), call.q.size(1), call.q.size(2), 1} {}

  const Descriptor& forward(const PlanTarget& target) {
    const Operand s =
        causal(scaled(product(of(c_.q, attention_q), turned(c_.k, attention_kt), scores())));
    const Operand top = reduced(CUDNN_REDUCE_TENSOR_MAX, s, between(rows_));
    const Operand e =
        pointwise(CUDNN_POINTWISE_EXP, pointwise(CUDNN_POINTWISE_SUB, s, top, scores()), scores());
    const Operand sum = reduced(CUDNN_REDUCE_TENSOR_ADD, e, between(rows_));
    pointwise(CUDNN_POINTWISE_ADD, top, pointwise(CUDNN_POINTWISE_LOG, sum, between(rows_)),
              of_rows(attention_lse));
    const Operand p = pointwise(CUDNN_POINTWISE_DIV, e, sum, between(scores_, type_));
    product(p, of(c_.v, attention_v), of(c_.y, attention_y));
    return builder_.finish(target);
  }

  const Descriptor& backward(const PlanTarget& target) {
    const Operand q = of(c_.q, attention_q), kt = turned(c_.k, attention_kt),
                  dy = of(c_.dy, attention_dy), scale = number(attention_scale),
                  delta = of_rows(attention_delta);
    const Operand dots =
        pointwise(CUDNN_POINTWISE_MUL, dy, of(c_.y, attention_y), between(c_.y.shape()));
    pointwise(CUDNN_POINTWISE_MUL, reduced(CUDNN_REDUCE_TENSOR_ADD, dots, between(rows_)),
              number(attention_one), delta);
    const Operand s = scaled(product(q, kt, scores()));
    const Operand p = pointwise(
        CUDNN_POINTWISE_EXP,
        causal(pointwise(CUDNN_POINTWISE_SUB, s, of_rows(attention_lse), scores())), scores());
    product(reshaped(p, turned_scores()), dy, of(c_.dv, attention_dv));
    const Operand dp = product(dy, turned(c_.v, attention_vt), scores());
    const Operand ds =
        pointwise(CUDNN_POINTWISE_MUL,
                  pointwise(CUDNN_POINTWISE_MUL,
                            pointwise(CUDNN_POINTWISE_SUB, dp, delta, scores()), p, scores()),
                  scale, scores());
    product(reshaped(ds, turned_scores()), q, of(c_.dk, attention_dk));
    const Operand k = reshaped(kt, between(c_.k.shape(), strides_for_cudnn(c_.k), type_));
    const Operand dq = product(ds, k,
                               &builder_.tensor(attention_sum_dq, CUDNN_DATA_FLOAT, c_.q.shape(),
                                                dense(c_.q.shape()), Kind::in_memory));
    pointwise(CUDNN_POINTWISE_IDENTITY, dq, of(c_.dq, attention_dq));
    return builder_.finish(target);
  }

 private:
  using Kind = GraphBuilder::Kind;
  using Operand = const Descriptor*;

  static Dims dense(const Dims& sizes) { return strides_of(sizes, MemoryFormat::contiguous); }

  Operand of(const Tensor& x, AttentionUid uid) {
    return &builder_.tensor(uid, type_, x.shape(), strides_for_cudnn(x), Kind::in_memory);
  }
  Operand turned(const Tensor& x, AttentionUid uid) {
    return &builder_.tensor(uid, type_, transposed(x.shape()), transposed(strides_for_cudnn(x)),
                            Kind::in_memory);
  }
  /// A number of each query in memory.
  Operand of_rows(AttentionUid uid) {
    return &builder_.tensor(uid, CUDNN_DATA_FLOAT, rows_, dense(rows_), Kind::in_memory);
  }
  Operand number(AttentionUid uid) {
    return &builder_.tensor(uid, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Kind::by_value);
  }
  Operand between(const Dims& sizes, const Dims& strides, cudnnDataType_t type) {
    return &builder_.tensor(attention_between + betweens_++, type, sizes, strides, Kind::between);
  }
  Operand between(const Dims& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return between(sizes, dense(sizes), type);
  }
  Operand scores() { return between(scores_); }
  Operand turned_scores() {
    return between(transposed(scores_), transposed(dense(scores_)), type_);
  }

  Operand product(Operand a, Operand b, Operand c) {
    Descriptor& how = builder_.add(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.finalize("a product's type");
    Descriptor& op = builder_.add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    builder_.end(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c);
    return c;
  }
  Operand pointwise(cudnnPointwiseMode_t mode, Operand x, Operand b, Operand y) {
    Descriptor& op = builder_.pointwise(mode);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
    if (b != nullptr) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    builder_.end(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
    return y;
  }
  Operand pointwise(cudnnPointwiseMode_t mode, Operand x, Operand y) {
    return pointwise(mode, x, nullptr, y);
  }
  Operand reduced(cudnnReduceTensorOp_t mode, Operand x, Operand y) {
    Descriptor& how = builder_.add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.finalize("a reduction's mode");
    Descriptor& op = builder_.add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x);
    builder_.end(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y);
    return y;
  }
  /// x's elements in their memory order, as a tensor of other sizes and strides.
  Operand reshaped(Operand x, Operand y) {
    Descriptor& op = builder_.add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x);
    builder_.end(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y);
    return y;
  }

  Operand scaled(Operand s) {
    return pointwise(CUDNN_POINTWISE_MUL, s, number(attention_scale), scores());
  }
  /// -inf for the keys after a query's own position.
  Operand causal(Operand s) {
    if (!c_.is_causal) return s;
    const auto position = [&](std::int64_t axis) {
      Descriptor& op = builder_.pointwise(
          CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT,
          [axis](Descriptor& mode) { mode.set(CUDNN_ATTR_POINTWISE_AXIS, axis); });
      op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *s);
      const Operand y = between(scores_, CUDNN_DATA_INT32);
      builder_.end(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
      return y;
    };
    const Operand query = position(2), key = position(3),
                  allowed = between(scores_, CUDNN_DATA_BOOLEAN), y = scores();
    Descriptor& compare = builder_.pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN);
    compare.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *query);
    compare.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *key);
    builder_.end(compare, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *allowed);
    Descriptor& select = builder_.pointwise(CUDNN_POINTWISE_BINARY_SELECT);
    select.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *s);
    select.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *number(attention_excluded));
    select.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *allowed);
    builder_.end(select, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
    return y;
  }
  const AttentionCall& c_;
  cudnnDataType_t type_;
  Dims scores_, rows_;
  int betweens_ = 0;
  GraphBuilder builder_;
};

}  // namespace

bool AttentionCall::suits_cudnn() const {
  constexpr std::int64_t pack = 8, most_features = 128;  // 16 bytes
  if ((q.dtype() != bf16 && q.dtype() != f16) || q.size(1) != k.size(1)) return false;
  constexpr std::int64_t keys_of_tile = 128;
  if (is_backward() && k.size(2) % keys_of_tile != 0 && !(is_causal && q.size(2) <= k.size(2)))
    return false;
  for (const Tensor& x : {q, k, v, y, dy, dq, dk, dv}) {
    if (!x.defined()) continue;
    if (x.size(3) % pack != 0 || x.size(3) > most_features || x.stride(3) != 1 ||
        reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 != 0)
      return false;
    for (int d = 0; d < 3; ++d)
      if (x.size(d) > 1 && (x.stride(d) % pack != 0 || x.stride(d) == 0)) return false;
  }
  return true;
}

std::vector<std::int64_t> AttentionCall::key() const {
  std::vector<std::int64_t> key = {q.device().index, static_cast<std::int64_t>(q.dtype()),
                                   is_causal, is_backward()};
  for (const Tensor& x : {q, k, v, y, dy, dq, dk, dv}) {
    if (!x.defined()) continue;
    key.insert(key.end(), x.shape().begin(), x.shape().end());
    key.insert(key.end(), x.strides().begin(), x.strides().end());
  }
  return key;
}

std::vector<CudnnPlan> attention_plans(const AttentionCall& call, const PlanTarget& target,
                                       std::size_t limit) {
  AttentionGraph graph(call);
  return cudnn_plans(call.is_backward() ? graph.backward(target) : graph.forward(target), target,
                     {}, limit);
}

void execute(const CudnnPlan& plan, const AttentionCall& call) {
  const float one = 1, excluded = -std::numeric_limits<float>::infinity();
  std::vector<NamedPointer> pointers = {{attention_scale, &call.scale}};
  const auto add = [&](std::int64_t uid, const Tensor& x) {
    pointers.emplace_back(uid, x.data_ptr());
  };
  add(attention_q, call.q);
  add(attention_kt, call.k);
  add(attention_y, call.y);
  add(attention_lse, call.lse);
  if (call.is_causal) pointers.emplace_back(attention_excluded, &excluded);
  const int device = call.q.device().index;
  if (!call.is_backward()) {
    add(attention_v, call.v);
    return execute(plan, device, pointers);
  }
  const TensorOptions floats = {.device = call.q.device()};
  const Tensor delta = Tensor::empty(call.lse.shape(), floats),
               sum_dq = Tensor::empty(call.q.shape(), floats);
  add(attention_vt, call.v);
  add(attention_dy, call.dy);
  add(attention_dq, call.dq);
  add(attention_dk, call.dk);
  add(attention_dv, call.dv);
  add(attention_delta, delta);
  add(attention_sum_dq, sum_dq);
  pointers.emplace_back(attention_one, &one);
  execute(plan, device, pointers);
}

}  // namespace rondo::cuda
