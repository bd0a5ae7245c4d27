#pragma once
// Sums: a copy of a tensor in which sums are formed, and which travels from rank to rank.
//
// Where ranks add up one after the other, sums of bf16 and f16 would be rounded at each: four
// ranks' 256, 1, 1 and 1 would come to 256 in bf16, whose number next to 259 is 260. And of four
// ranks' 30,000 the average is an f16, the sum is not. So they travel in f32.

#include <cstddef>
#include <vector>

#include "dist/collectives/reduce.h"
#include "tensor/tensor.h"

namespace rondo::dist {

/// Dense, in the order of x's memory, in x's dtype or f32.
class Sums {
 public:
  /// Whether rounding each addition to `dtype` would show.
  static bool are_wide(DType dtype, ReduceOp op) {
    return (dtype == bf16 || dtype == f16) &&
           (op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::prod);
  }

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
