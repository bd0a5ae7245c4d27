#pragma once
// CpuBackend: the Backend for this machine's CPU cores. Each group of methods has its own file;
// tensor/backend.h documents the methods. oneDNN computes matrix products of f32 and bf16 and most
// convolutions (onednn.h; conv.cpp lists the exceptions). Kernels compiled once per instruction set
// (isa/) run the time-critical loops. Plain strided loops (strided.h) do the rest, and reference.h
// has the loops for f64.

#include "tensor/backend.h"

namespace rondo::cpu {

class CpuBackend : public Backend {
 public:
  /// Throws Error if RONDO_ISA in the environment is not an instruction set (isa/table.h).
  CpuBackend();
  static CpuBackend& instance();

  Allocator& allocator() override;

  // elementwise.cpp
  void do_fill(const Tensor& y, Scalar value) override;
  void do_copy(const Tensor& x, const Tensor& y) override;
  void do_unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) override;
  void do_binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                 OpParams params) override;
  void do_cumprod_backward(const Tensor& dy, const Tensor& x, std::int64_t dim,
                           const Tensor& dx) override;
  void do_true_places(const Tensor& mask, const Tensor& y) override;
  void do_where(const Tensor& condition, const Tensor& a, const Tensor& b,
                const Tensor& y) override;
  void do_rotate(const Tensor& a, const Tensor& b, const Tensor& cosine, const Tensor& sine,
                 const Tensor& ya, const Tensor& yb) override;

  // reduce.cpp
  void do_reduce(ReductionOp op, const Tensor& x, const Tensor& y) override;
  void do_extremum(bool largest, const Tensor& x, std::int64_t dim, const Tensor& values,
                   const Tensor& indices) override;

  // scan.cpp
  void do_scan(ScanOp op, const Tensor& x, std::int64_t dim, bool reverse,
               const Tensor& y) override;

  // sort.cpp
  void do_sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
               const Tensor& indices) override;
  void do_topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
               const Tensor& indices) override;

  // softmax.cpp
  void do_softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) override;
  void do_softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                           const Tensor& dx) override;

  // cross_entropy.cpp
  void do_cross_entropy(const Tensor& logits, const Tensor& target,
                        const CrossEntropyParams& params, const Tensor& lines) override;
  void do_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                                 const Tensor& lines, const CrossEntropyParams& params,
                                 const Tensor& dlogits) override;

  // indexing.cpp
  void do_index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                       const Tensor& y) override;
  void do_sparse_product(const CompressedRows& matrix, const Tensor& x, const Tensor& y) override;
  void do_index_scatter(ScatterOp op, const Tensor& y, std::int64_t dim, const Tensor& index,
                        const Tensor& x) override;
  void do_gather(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& y) override;
  void do_scatter(ScatterOp op, const Tensor& y, std::int64_t dim, const Tensor& index,
                  const Tensor& x) override;

  // random.cpp
  void do_uniform(const Tensor& y, Philox random, double low, double high) override;
  void do_normal(const Tensor& y, Philox random, double mean, double stddev) override;
  void do_randint(const Tensor& y, Philox random, std::int64_t low, std::int64_t high) override;

  // matmul.cpp
  void do_matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y,
                 Activation activation) override;

  // conv.cpp
  MemoryFormat conv2d_format(DType dtype) const override;
  void do_conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                 const Conv2dParams& params) override;
  void do_conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                const Conv2dParams& params) override;
  void do_conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                 const Tensor& dbias, const Conv2dParams& params) override;

  // batch_norm.cpp
  void do_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const Tensor& running_mean, const Tensor& running_var, double momentum,
                     double eps, const BatchNormFusion& fusion, const Tensor& y, const Tensor& mean,
                     const Tensor& invstd) override;
  void do_batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                               const Tensor& mean, const Tensor& var, double eps,
                               const BatchNormFusion& fusion, const Tensor& y) override;
  std::int64_t batch_norm_mask_bytes(const Tensor& x) const override;
  void do_batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, bool relu,
                              const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                              const Tensor& invstd, const Tensor& dx, const Tensor& dgamma,
                              const Tensor& dbeta, const Tensor& dresidual) override;

  // layer_norm.cpp
  bool has_layer_norm(const Tensor& x) const override;
  void do_layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                     const Tensor& y, const Tensor& mean, const Tensor& invstd) override;
  void do_layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                              const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                              const Tensor& dgamma, const Tensor& dbeta) override;

  // group_norm.cpp
  bool has_group_norm(const Tensor& x) const override;
  MemoryFormat group_norm_format(const Tensor& x) const override;
  void do_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta,
                     double eps, const Tensor& y, const Tensor& mean,
                     const Tensor& invstd) override;
  void do_group_norm_backward(const Tensor& dy, const Tensor& x, std::int64_t groups,
                              const Tensor& gamma, const Tensor& mean, const Tensor& invstd,
                              const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) override;

  // lstm.cpp
  bool has_lstm(const Tensor& x) const override;
  void do_lstm(const Tensor& of_x, const Tensor& w, bool reverse, const Tensor& gates,
               const Tensor& h, const Tensor& c) override;
  void do_lstm_backward(const Tensor& w, const Tensor& gates, const Tensor& c, bool reverse,
                        const Tensor& dy, const Tensor& dgates, const Tensor& dh,
                        const Tensor& dc) override;

  // attention.cpp
  bool has_attention(const Tensor& q) const override;
  void do_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionParams& params, const Tensor& y, const Tensor& lse) override;
  void do_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionParams& params, const Tensor& y, const Tensor& lse,
                             const Tensor& dq, const Tensor& dk, const Tensor& dv) override;

  // pool.cpp
  void do_max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                     const Pool2dParams& params) override;
  void do_max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Pool2dParams& params,
                              const Tensor& dx) override;
  void do_max_pool2d_gather(const Tensor& x, const Tensor& indices, const Tensor& y) override;
  void do_avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dParams& params) override;
  void do_avg_pool2d_backward(const Tensor& dy, const Tensor& dx,
                              const Pool2dParams& params) override;
  void do_adaptive_avg_pool2d(const Tensor& x, const Tensor& y) override;
  void do_adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) override;

  // optimizer.cpp
  void do_sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer, const Tensor& rates,
                   const SgdParams& params) override;
  void do_adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                    const Tensor& max_v, const Tensor& rates, const Tensor& step,
                    const AdamParams& params) override;
  void do_unscale(std::span<const Tensor> gradients, const Tensor& scale,
                  const Tensor& found_inf) override;
};

}  // namespace rondo::cpu
