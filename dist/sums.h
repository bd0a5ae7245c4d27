#pragma once
// Sums: a copy of a tensor in which sums are formed, and which travels from rank to rank.

#include <cstddef>
#include <vector>

#include "dist/reduce.h"
#include "tensor/tensor.h"

namespace rondo::dist {

/// Dense, in the order of x's memory, in x's dtype; but averages of f16 in f32: of four ranks'
/// 30,000 the average is an f16, the sum is not.
class Sums {
 public:
  static bool are_wide(DType dtype, ReduceOp op) { return dtype == f16 && op == ReduceOp::avg; }

  Sums(const Tensor& x, ReduceOp op);
  DType dtype() const { return dtype_; }
  /// Takes x's elements. The memory stays where it is until the next.
  void* take();
  bool empty() const { return memory_.empty(); }
  /// out = the elements from `first` on, rounded to its dtype, which is x's. After `take`.
  void give(const Tensor& out, std::int64_t first = 0) const;

 private:
  Tensor x_;
  DType dtype_;
  std::vector<std::byte> memory_;
};

}  // namespace rondo::dist
