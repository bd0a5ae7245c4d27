// The gradient of the weights of filters of one pixel, as a product of matrices. A channels_last
// image is a matrix with a row for each pixel: x (N H W, C), dy (N H W, K), w (K, C).
//
//   dw = dyᵀ x
//
// With AVX2 these products are faster than convolutions of oneDNN and implicit_gemm.h, except where
// rows are a multiple of 2 KiB apart and packed_matmul.h does not take the sizes. In the other two
// passes oneDNN's convolution is faster (docs/journal.md).

#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/packed_matmul.h"

namespace rondo::cpu {
namespace one_pixel {
namespace {

bool suits(const Conv2dProblem& p) {
  const Conv2dParams& o = p.params;
  const MatmulProblem product{.dtype = p.dtype,
                              .batch = 1,
                              .a_batch = 1,
                              .c_batch = 1,
                              .m = p.k,
                              .n = p.c,
                              .k = p.n * p.p * p.q,
                              .a_strides = {0, 1, p.k},
                              .c_strides = {0, p.c, 1},
                              .y_strides = {0, p.c, 1},
                              .bias = false};
  const bool is_slow = packed_matmul::has_conflicts(product) && !packed_matmul::suits(product);
  return !is_slow && p.pass == Conv2dProblem::Pass::backward_weight && p.dtype == f32 && p.r == 1 &&
         p.s == 1 && o.groups == 1 && o.stride_h == 1 && o.stride_w == 1 && o.pad_h == 0 &&
         o.pad_w == 0;
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
