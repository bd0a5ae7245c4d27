#pragma once
// KernelCall: one kernel in a profile. The public methods of Backend open one around each kernel.
//
// Arithmetic is counted as in papers and in PyTorch's profiler: a multiplication and an addition
// are two operations. So a product of (M, K) and (K, N) has 2 M K N operations. Each of the three
// convolutions has two operations for each output position and weight, and the four arithmetic ops
// have one per element. Other kernels are not counted: memory limits their time.
//
// Memory counts each operand once, however the kernel accesses it. Repeated elements (stride 0)
// also count once. So the figure is the minimum that must be transferred; a kernel that reads its
// operand twice shows half of the memory's speed.

#include <initializer_list>
#include <string_view>

#include "tensor/recording.h"
#include "tensor/tensor.h"

namespace rondo {

class KernelCall {
 public:
  struct Work {
    double flops = 0;
    double bytes = 0;       // added to those of the operands
    bool in_place = false;  // a profile shows "add_" for "add"
  };

  /// Begins the kernel `name`, if a recording is running. An operand that is read and written is
  /// passed twice; undefined operands are left out. The first operand's device runs the kernel.
  template <class... Operands>
  KernelCall(std::string_view name, const Work& work, const Operands&... operands) {
    if (is_recording()) begin(name, work, {&operands...});
  }
  ~KernelCall() {
    if (open_ != nullptr) end();
  }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

 private:
  struct Open;  // the recorded kernel and, on a GPU, its start

  void begin(std::string_view name, const Work& work,
             std::initializer_list<const Tensor*> operands);
  void end() noexcept;

  Open* open_ = nullptr;
};

/// The bytes that a kernel must transfer to read or write x once; 0 if x is undefined.
double transfer_bytes(const Tensor& x);

/// The operations of a convolution with weight w (K, …), or of a gradient of it; y has the shape of
/// its output.
inline double conv2d_flops(const Tensor& y, const Tensor& w) {
  return w.size(0) == 0 ? 0 : 2 * static_cast<double>(y.numel() * (w.numel() / w.size(0)));
}

}  // namespace rondo
