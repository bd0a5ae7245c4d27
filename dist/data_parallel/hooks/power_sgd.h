#pragma once
// PowerSgdHook: sends each gradient as a product of two thin matrices (Vogels, Karimireddy, Jaggi
// 2019, "PowerSGD", algorithm 1). They are found by one step of power iteration, which begins with
// the result of the last one:
//
//   M = g + e  (m × n)
//   P = M Q (m × r), averaged;  P orthogonalised;  Q = Mᵀ P (n × r), averaged
//   g = P Qᵀ;  e = M - g
//
// Vectors, and matrices that would not shrink to half their size, are sent uncompressed. For the
// others a rank sends r (m + n) numbers instead of m n.

#include "dist/data_parallel/comm_hook.h"

namespace rondo::dist {

struct PowerSgdOptions {
  int rank = 2;
  /// The first start_step steps are uncompressed: early gradients change too much for error
  /// feedback.
  std::int64_t start_step = 10;
  std::uint64_t seed = 0;  // of the first Q
};

class PowerSgdHook final : public CommHook {
 public:
  explicit PowerSgdHook(PowerSgdOptions options = {});
  const char* name() const override { return "powersgd"; }
  void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) override;
  std::int64_t warm_up_steps() const override { return options_.start_step; }
  int rounds() const override { return 2; }
  std::vector<Work> start(int round, const GradBucket& bucket, Communicator& comm) override;
  void finish(const GradBucket& bucket, Communicator& comm) override;

 private:
  /// A gradient that is sent as a product. The tensors are views of the bucket's.
  struct Matrix {
    Tensor gradient, error;  // m × n
    Tensor p, q;             // m × r, n × r
  };
  struct Bucket {
    std::vector<Matrix> matrices;
    Tensor errors, ps, qs;  // of all matrices, each in one contiguous buffer
    Tensor first_qs;        // the random initial values, which replace a q that is not finite
    Tensors plain;          // the slices that are sent uncompressed
    Tensor plain_flat;      // their copies in one contiguous buffer
    Tensor step;            // the number of steps so far: one i64
  };
  bool is_plain(const Bucket& bucket) const;
  Bucket make_bucket(const GradBucket& bucket, Communicator& comm) const;

  PowerSgdOptions options_;
  std::vector<Bucket> buckets_;
};

/// Makes the columns of x (m × r) orthonormal, one after another (modified Gram-Schmidt). A column
/// that depends linearly on those before it becomes zero.
void orthogonalize(const Tensor& x);

}  // namespace rondo::dist
