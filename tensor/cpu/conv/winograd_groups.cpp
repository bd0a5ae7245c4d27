// Winograd's convolution (winograd.h) of narrow groups, several groups at a time.
//
// It needs 16 channels in a group. With 4 or 8, as in ResNeXt, oneDNN's kernels for AVX2 reach a
// twentieth to a quarter of a product's rate. So n neighbouring groups are
// joined to one of a multiple of 16 channels and filters, with zeros as the weights between them:
//
//     w (K, C / groups, R, S) -> (K, n C / groups, R, S), block-diagonal in each joined group.
//
// There are n times as many products, and Winograd's method saves that again. For others (a stride)
// oneDNN's sums of the separate groups are as fast. A product with zero also means that an infinity
// in one group makes NaN in the groups joined with it.
//
// Groups of a single channel (depthwise convolution) are left to other algorithms.

#include <algorithm>

#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/conv/winograd.h"
#include "tensor/cpu/cpu_backend.h"

namespace rondo::cpu::winograd_groups {
namespace {

/// How many groups fill a vector: groups of 2, 4, 8 or 16 channels and filters. 1: no more than
/// one, or others, of which a vector would hold too many zeros.
std::int64_t groups_to_join(std::int64_t channels, std::int64_t filters, std::int64_t groups) {
  const std::int64_t inputs = channels / groups, outputs = filters / groups;
  if (inputs < 2 || outputs < 2 || 16 % inputs != 0 || 16 % outputs != 0) return 1;
  const std::int64_t n = 16 / std::min(inputs, outputs);
  return groups % n == 0 ? n : 1;
}

Conv2dParams joined(Conv2dParams params, std::int64_t n) {
  params.groups /= n;
  return params;
}

/// The weights of each group, (groups / n, n, K / groups, channels, R, S): w has those of the
/// groups (K, channels, R, S), or those of n joined groups (K, n channels, R, S).
Tensor by_group(const Tensor& w, std::int64_t groups, std::int64_t n, std::int64_t channels) {
  const std::int64_t filters = w.size(0) / groups;
  const std::int64_t column = w.size(1) == channels ? 0 : channels;
  return w.as_view({groups / n, n, filters, channels, w.size(2), w.size(3)},
                   {n * filters * w.stride(0), filters * w.stride(0) + column * w.stride(1),
                    w.stride(0), w.stride(1), w.stride(2), w.stride(3)},
                   w.storage_offset());
}

Tensor join(const Tensor& w, std::int64_t groups, std::int64_t n) {
  const std::int64_t channels = w.size(1);
  const Tensor all =
      Tensor::empty({w.size(0), n * channels, w.size(2), w.size(3)}, {.dtype = w.dtype()});
  CpuBackend& cpu = CpuBackend::instance();
  cpu.do_fill(all, 0);
  cpu.do_copy(by_group(w, groups, n, channels), by_group(all, groups, n, channels));
  return all;
}

bool suits(const Conv2dProblem& p) {
  const std::int64_t n = groups_to_join(p.c, p.k, p.params.groups);
  if (n == 1) return false;
  Conv2dProblem wide = p;
  wide.params = joined(p.params, n);
  return winograd::suits(wide);
}

void forward(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
             const Conv2dParams& params) {
  const std::int64_t n = groups_to_join(x.size(1), w.size(0), params.groups);
  conv::winograd.forward(x, join(w, params.groups, n), bias, y, joined(params, n));
}

void backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                    const Conv2dParams& params) {
  const std::int64_t n = groups_to_join(dx.size(1), w.size(0), params.groups);
  conv::winograd.backward_input(dy, join(w, params.groups, n), dx, joined(params, n));
}

void backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& dbias,
                     const Conv2dParams& params) {
  const std::int64_t n = groups_to_join(x.size(1), dw.size(0), params.groups);
  const std::int64_t channels = dw.size(1);
  const Tensor all =
      Tensor::empty({dw.size(0), n * channels, dw.size(2), dw.size(3)}, {.dtype = dw.dtype()});
  conv::winograd.backward_weight(dy, x, all, dbias, joined(params, n));
  CpuBackend::instance().do_copy(by_group(all, params.groups, n, channels),
                                 by_group(dw, params.groups, n, channels));
}

}  // namespace
}  // namespace rondo::cpu::winograd_groups

namespace rondo::cpu {

const ConvAlgorithm conv::winograd_groups{"winograd_groups", winograd_groups::suits,
                                          winograd_groups::forward, winograd_groups::backward_input,
                                          winograd_groups::backward_weight};

}  // namespace rondo::cpu
