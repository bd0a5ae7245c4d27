// The gradient of the weights of filters of one pixel, as a product of matrices. A channels_last
// image is a matrix with a row for each pixel: x (N H W, C), dy (N H W, K), w (K, C).
//
//   dw = dyᵀ x
//
// With AVX2 these products are faster than convolutions of oneDNN and implicit_gemm.h, except where
// rows are a multiple of 2 KiB apart and packed_matmul.h does not take the sizes. In the other two
// passes oneDNN's convolution is faster (docs/journal.md).

#include <algorithm>

#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/cpu_backend.h"

namespace rondo::cpu {
namespace one_pixel {
namespace {

bool suits(const Conv2dProblem& p) {
  const Conv2dParams& o = p.params;
  const bool has_conflicts = p.c % 512 == 0 || (p.k % 512 == 0 && p.c <= 320);
  const bool is_packed =
      std::min(p.c, p.k) >= 64 && p.c % 16 == 0 && p.k % 16 == 0 && p.n * p.p * p.q % 16 == 0;
  return (!has_conflicts || is_packed) && p.pass == Conv2dProblem::Pass::backward_weight &&
         p.dtype == f32 && p.r == 1 && p.s == 1 && o.groups == 1 && o.stride_h == 1 &&
         o.stride_w == 1 && o.pad_h == 0 && o.pad_w == 0;
}

void product(const Tensor& dy, const Tensor& x, const Tensor& dw, const Conv2dParams&) {
  const std::int64_t c = x.size(1), k = dy.size(1), pixels = x.numel() / c;
  CpuBackend::instance().do_matmul(dy.as_view({1, k, pixels}, {0, 1, k}, dy.storage_offset()),
                                   x.as_view({1, pixels, c}, {0, c, 1}, x.storage_offset()), {},
                                   dw.as_view({1, k, c}, {0, c, 1}, dw.storage_offset()),
                                   Activation::none);
}

void backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& dbias,
                     const Conv2dParams& params) {
  sum_in_f32(product, dy, x, dw, dbias, params);
}

}  // namespace
}  // namespace one_pixel

const ConvAlgorithm conv::one_pixel{"one_pixel", one_pixel::suits, nullptr, nullptr,
                                    one_pixel::backward_weight};

}  // namespace rondo::cpu
