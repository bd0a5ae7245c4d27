#pragma once
// CudaBackend: the kernels of a GPU. Its members are defined by topic, like the CPU's, in the .cu
// and .cpp files of this folder; all of them put their work into the calling thread's current
// stream and return without waiting for it.

#include "tensor/backend.h"

namespace rondo::cuda {

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int device) : device_(device) {}

  Allocator& allocator() override;

  // copy.cu
  void fill(const Tensor& y, Scalar value) override;
  /// x or y may also lie on the host, or on another GPU. Only a copy to the host waits.
  void copy(const Tensor& x, const Tensor& y) override;
  // unary.cu, binary.cu
  void unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) override;
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
              OpParams params) override;
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override;

 private:
  void copy_to_peer(const Tensor& from, const Tensor& to);

  int device_;
};

}  // namespace rondo::cuda
