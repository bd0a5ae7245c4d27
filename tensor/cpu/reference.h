#pragma once
// Plain loops: the specification of the heavy kernels, and the implementation for f64 and integers,
// which no library covers. Written for readability rather than speed. Any strides.

#include "tensor/backend.h"

namespace rondo::cpu::reference {

void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y);
void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& params);
void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& params);
void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Tensor& dbias, const Conv2dParams& params);

}  // namespace rondo::cpu::reference
