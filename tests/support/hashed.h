#pragma once
// Numbers that C++ and Python compute identically, bit for bit, from an integer hash: gradients for
// optimizer trajectories that need not be stored. tests/golden/make_optim.py is the other side.

#include <cstdint>
#include <vector>

#include "autograd/autograd_meta.h"
#include "support/test_device.h"
#include "tensor/creation.h"

namespace rondo::test {

/// A number in [-1, 1), a multiple of 2^-23 and therefore exact in f32.
inline double hashed(std::uint32_t stream, std::uint32_t step, std::uint32_t i) {
  std::uint32_t x = stream * 0x9E3779B1u ^ step * 0x85EBCA6Bu ^ i * 0xC2B2AE35u;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  x ^= x >> 16;
  return (x >> 8) * 0x1p-23 - 1;
}

inline Tensor hashed_tensor(std::uint32_t stream, std::uint32_t step, const Dims& shape,
                            DType dtype = f32, double scale = 1) {
  Tensor x = Tensor::empty(shape, {.dtype = dtype});
  visit_dtype(dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      x.data_ptr<T>()[i] =
          static_cast<T>(hashed(stream, step, static_cast<std::uint32_t>(i)) * scale);
    }
  });
  return x;
}

/// Three parameters, of shapes (7), (3, 5) and (), on test_device().
inline Tensors hashed_parameters(DType dtype = f32) {
  Tensors params{hashed_tensor(0, 0, {7}, dtype), hashed_tensor(1, 0, {3, 5}, dtype),
                 hashed_tensor(2, 0, {}, dtype)};
  for (Tensor& p : params) p = p.to(test_device()).requires_grad_();
  return params;
}

/// Their gradients of step 1, 2, …; the second has none at steps 3, 10, 17, …
inline void set_hashed_gradients(const Tensors& params, std::uint32_t step) {
  double scale = 1;
  for (std::uint32_t k = 0; k < params.size(); ++k, scale /= 2) {
    const Tensor& p = params[k];
    if (k == 1 && step % 7 == 3) {
      p.zero_grad();
    } else {
      p.set_grad(hashed_tensor(k, step, p.shape(), p.dtype(), scale).to(p.device()));
    }
  }
}

/// All elements of all tensors.
inline std::vector<double> flattened(const Tensors& tensors) {
  std::vector<double> all;
  for (const Tensor& x : tensors) {
    auto values = x.to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace rondo::test
