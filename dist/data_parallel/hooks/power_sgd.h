#pragma once
// PowerSgdHook: each gradient as a product of two thin matrices (Vogels, Karimireddy, Jaggi 2019,
// "PowerSGD", algorithm 1), found by one step of power iteration that begins where the last one
// ended:
//
//   M = g + e  (m × n)
//   P = M Q (m × r), averaged;  P orthogonalised;  Q = Mᵀ P (n × r), averaged
//   g = P Qᵀ;  e = M - g
//
// Vectors, and matrices that would not shrink to half, travel as they are. A rank sends r (m + n)
// numbers where it sent m n.

#include "dist/data_parallel/comm_hook.h"

namespace rondo::dist {

struct PowerSgdOptions {
  int rank = 2;
  /// Steps that travel as they are: the first gradients change too much for a memory to help.
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
  /// A gradient that travels as a product. The tensors are views of the bucket's.
  struct Matrix {
    Tensor gradient, error;  // m × n
    Tensor p, q;             // m × r, n × r
  };
  struct Bucket {
    std::vector<Matrix> matrices;
    Tensor errors, ps, qs;  // of all of them, each in one run of memory
    Tensor first_qs;        // as drawn, where a later one is not finite
    Tensors plain;          // the slices that travel as they are,
    Tensor plain_flat;      // and their copies in one run
    Tensor step;            // how many have been, one i64
  };
  bool is_plain(const Bucket& bucket) const;
  Bucket make_bucket(const GradBucket& bucket, Communicator& comm) const;

  PowerSgdOptions options_;
  std::vector<Bucket> buckets_;
};

/// The columns of x (m × r) become orthonormal, one after another (modified Gram-Schmidt); one that
/// depends on those before it becomes zero.
void orthogonalize(const Tensor& x);

}  // namespace rondo::dist
