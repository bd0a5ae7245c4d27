// Group norm of x (N, C, …). Each group of channels of each image has its own mean and deviation:
//
//   h = (x - mean) invstd,   invstd = 1 / sqrt(var + eps),   y = h gamma_c + beta_c
//   dx = invstd (g - mean(g) - h mean(g h)),   g = dy gamma_c
//   dgamma_c = Σ dy h,   dbeta_c = Σ dy,   over channel c of all images
//
// Uses batch norm's kernels for one channel's plane (isa/table.h). Forward reads a group three
// times: for its mean, for the deviation around that mean, and to write y. Backward computes two
// sums per plane, from which all three gradients follow. A thread processes whole groups, and the
// sums over images are added in image order, so the bits do not depend on the number of threads.

#include <cmath>
#include <vector>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/dense_reduce.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t part_length = 16384;  // elements that are summed in f32

/// Calls f(first, length) for the parts of n elements.
template <class F>
void in_parts(std::int64_t n, F f) {
  for (std::int64_t i = 0; i < n; i += part_length) f(i, std::min(part_length, n - i));
}

struct Moments {
  double mean, invstd;
  Moments(const float* x, std::int64_t n, double eps) {
    const auto count = static_cast<double>(n);
    double sum = 0, centered = 0, squares = 0;
    in_parts(n, [&](auto i, auto length) { sum += reduce_run<ReductionOp::sum>(x + i, length); });
    const auto about = static_cast<float>(sum / count);
    in_parts(n, [&](auto i, auto length) {
      float a = 0, b = 0;
      kernels().batch_norm.moments(x + i, length, 1, &about, &a, &b);
      centered += a;
      squares += b;
    });
    const double off = centered / count;  // the error from rounding the mean to f32
    mean = about + off;
    invstd = 1 / std::sqrt(squares / count - off * off + eps);
  }
};

const float* values_of(const Tensor& v) { return v.defined() ? v.data_ptr<float>() : nullptr; }

}  // namespace

bool CpuBackend::has_group_norm(const Tensor& x) const { return x.dtype() == f32; }

void CpuBackend::do_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma,
                               const Tensor& beta, double eps, const Tensor& y, const Tensor& mean,
                               const Tensor& invstd) {
  const std::int64_t each = x.size(1) / groups, plane = x.numel() / (x.size(0) * x.size(1));
  const float *scales = values_of(gamma), *shifts = values_of(beta), *in = x.data_ptr<float>();
  auto *out = y.data_ptr<float>(), *m = mean.data_ptr<float>(), *s = invstd.data_ptr<float>();
  parallel_for(x.size(0) * groups, x.numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const Moments moments(in + group * each * plane, each * plane, eps);
      const auto about = static_cast<float>(moments.mean);
      m[group] = about;
      s[group] = static_cast<float>(moments.invstd);
      for (std::int64_t k = 0; k < each; ++k) {
        const std::int64_t channel = group % groups * each + k, at = (group * each + k) * plane;
        const auto a =
            static_cast<float>(scales ? scales[channel] * moments.invstd : moments.invstd);
        const auto b = static_cast<float>((shifts ? shifts[channel] : 0) -
                                          (moments.mean - about) * static_cast<double>(a));
        kernels().batch_norm.apply(in + at, nullptr, out + at, nullptr, plane, 1, &about, &a, &b,
                                   false, false);
      }
    }
  });
}

void CpuBackend::do_group_norm_backward(const Tensor& dy, const Tensor& x, std::int64_t groups,
                                        const Tensor& gamma, const Tensor& mean,
                                        const Tensor& invstd, const Tensor& dx,
                                        const Tensor& dgamma, const Tensor& dbeta) {
  const std::int64_t images = x.size(0), channels = x.size(1), each = channels / groups;
  const std::int64_t plane = x.numel() / (images * channels), n = each * plane;
  const float *scales = values_of(gamma), *g = dy.data_ptr<float>(), *in = x.data_ptr<float>();
  const auto *m = mean.data_ptr<float>(), *s = invstd.data_ptr<float>();
  auto* out = dx.defined() ? dx.data_ptr<float>() : nullptr;
  // Σ dy and Σ dy (x - mean) of each plane; the latter is then multiplied by invstd.
  std::vector<double> sums(static_cast<std::size_t>(images * channels));
  std::vector<double> products(sums.size());
  parallel_for(images * groups, x.numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const auto scale_of = [&](std::int64_t k) {
        return scales ? static_cast<double>(scales[group % groups * each + k]) : 1;
      };
      double sum_g = 0, sum_gh = 0;
      for (std::int64_t k = 0; k < each; ++k) {
        const std::int64_t p = group * each + k;
        double sum = 0, product = 0;
        in_parts(plane, [&](auto i, auto length) {
          float a = 0, b = 0;
          kernels().batch_norm.backward_sums(g + p * plane + i, in + p * plane + i, {}, length, 1,
                                             m + group, &a, &b);
          sum += a;
          product += b;
        });
        sums[p] = sum;
        products[p] = product * s[group];
        sum_g += scale_of(k) * sums[p];
        sum_gh += scale_of(k) * products[p];
      }
      // dx = dy a + (x - mean) b + d
      if (out == nullptr) continue;
      const auto count = static_cast<double>(n);
      const auto b = static_cast<float>(-sum_gh / count * s[group] * s[group]);
      const auto d = static_cast<float>(-sum_g / count * s[group]);
      for (std::int64_t k = 0; k < each; ++k) {
        const std::int64_t at = (group * each + k) * plane;
        const auto a = static_cast<float>(scale_of(k) * s[group]);
        kernels().batch_norm.backward_apply(g + at, in + at, {}, out + at, nullptr, plane, 1,
                                            m + group, &a, &b, &d, false);
      }
    }
  });
  const auto over_images = [&](const std::vector<double>& of, const Tensor& to) {
    for (std::int64_t c = 0; to.defined() && c < channels; ++c) {
      double total = 0;
      for (std::int64_t i = 0; i < images; ++i) total += of[i * channels + c];
      to.data_ptr<float>()[c] = static_cast<float>(total);
    }
  };
  over_images(products, dgamma);
  over_images(sums, dbeta);
}

}  // namespace rondo::cpu
