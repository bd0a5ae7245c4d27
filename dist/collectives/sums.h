#pragma once
// Sums: a copy of a tensor's elements in which sums are formed, and which is sent from rank to
// rank.
//
// If ranks add one after the other, each addition rounds a sum of bf16 or f16. Example: four ranks
// hold 256, 1, 1 and 1. In bf16 the sum stays 256, although the bf16 nearest to 259 is 260. Another
// example: the average of four ranks' 30,000 fits into f16, but their sum does not. Therefore such
// sums are sent in f32.

#include <cstddef>
#include <vector>

#include "dist/collectives/reduce.h"
#include "tensor/tensor.h"

namespace rondo::dist {

/// Dense, in the order of x's memory. The dtype is x's, or f32 where are_wide.
class Sums {
 public:
  /// Whether sums of this dtype must be wider than it, since rounding each addition would lose
  /// precision.
  static bool are_wide(DType dtype, ReduceOp op) {
    return (dtype == bf16 || dtype == f16) &&
           (op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::prod);
  }

  Sums(const Tensor& x, ReduceOp op);
  DType dtype() const { return dtype_; }
  /// Copies x's elements here. The returned memory is valid until the next call.
  void* take();
  bool empty() const { return memory_.empty(); }
  /// out = the elements from `first` on, rounded to out's dtype, which is x's. Call `take` first.
  void give(const Tensor& out, std::int64_t first = 0) const;

 private:
  Tensor x_;
  DType dtype_;
  std::vector<std::byte> memory_;
};

}  // namespace rondo::dist
