// Group norm of x (N, C, …). Each group of channels of each image has its own mean and deviation:
//
//   h = (x - mean) invstd,   invstd = 1 / sqrt(var + eps),   y = h gamma_c + beta_c
//   dx = invstd (g - mean(g) - h mean(g h)),   g = dy gamma_c
//   dgamma_c = Σ dy h,   dbeta_c = Σ dy,   over channel c of all images
//
// Uses batch norm's kernels (isa/table.h): for one channel's plane, or in channels_last for rows of
// channels. Forward reads a group three times: for its mean, for the deviation around that mean,
// and to write y. In channels_last the deviation is first summed around the image's first pixel; if
// that is near enough, the mean follows from the same sums. Backward computes two sums per
// plane, from which all three gradients follow. All sums are those of parts of a fixed length,
// added in order, so the bits do not depend on the number of threads. They do depend on the layout.

#include <algorithm>
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
    *this = Moments(about, centered, squares, count, eps);
  }
  /// From Σ (x - about) and Σ (x - about)², where `about` is nearly the mean.
  Moments(double about, double centered, double squares, double count, double eps) {
    const double off = centered / count;  // the error from rounding the mean to f32
    mean = about + off;
    invstd = 1 / std::sqrt(squares / count - off * off + eps);
  }
};

const float* values_of(const Tensor& v) { return v.defined() ? v.data_ptr<float>() : nullptr; }
float* space_of(const Tensor& v) { return v.defined() ? v.data_ptr<float>() : nullptr; }

/// The sizes of a problem, and the functions of its groups' statistics.
struct GroupNorm {
  std::int64_t images, channels, groups, plane;
  const float *gamma, *beta;  // null: ones, zeros

  GroupNorm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta)
      : images(x.size(0)),
        channels(x.size(1)),
        groups(groups),
        plane(x.numel() / (images * channels)),
        gamma(values_of(gamma)),
        beta(values_of(beta)) {}
  std::int64_t each() const { return channels / groups; }  // channels of a group
  double scale(std::int64_t channel) const { return gamma ? gamma[channel] : 1; }

  /// y = (x - mean) a + b, for batch norm's kernel
  struct Affine {
    float mean, a, b;
  };
  Affine affine(const Moments& m, std::int64_t channel) const {
    const auto about = static_cast<float>(m.mean),
               a = static_cast<float>(scale(channel) * m.invstd);
    const double shift = beta ? beta[channel] : 0;
    return {about, a, static_cast<float>(shift - (m.mean - about) * static_cast<double>(a))};
  }
  /// dx = dy a_c + (x - mean) b + d, with a_c = gamma_c invstd, from Σ g and Σ g h of a group.
  struct Gradient {
    float b, d;
  };
  Gradient gradient(double sum_g, double sum_gh, double invstd) const {
    const auto count = static_cast<double>(each() * plane);
    return {static_cast<float>(-sum_gh / count * invstd * invstd),
            static_cast<float>(-sum_g / count * invstd)};
  }
};

// ---- Planes of channels ----

void normalize_planes(const GroupNorm& p, double eps, const float* x, float* y, float* mean,
                      float* invstd) {
  parallel_for(p.images * p.groups, p.images * p.channels * p.plane, [&](auto begin, auto end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group * p.each();
      const Moments moments(x + first * p.plane, p.each() * p.plane, eps);
      mean[group] = static_cast<float>(moments.mean);
      invstd[group] = static_cast<float>(moments.invstd);
      for (std::int64_t k = first; k < first + p.each(); ++k) {
        const auto f = p.affine(moments, k % p.channels);
        kernels().batch_norm.apply(x + k * p.plane, nullptr, y + k * p.plane, nullptr, p.plane, 1,
                                   &f.mean, &f.a, &f.b, false, false);
      }
    }
  });
}

/// sums, products: Σ dy and Σ dy h of each plane.
void planes_backward(const GroupNorm& p, const float* dy, const float* x, const float* mean,
                     const float* invstd, float* dx, double* sums, double* products) {
  parallel_for(p.images * p.groups, p.images * p.channels * p.plane, [&](auto begin, auto end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group * p.each();
      double sum_g = 0, sum_gh = 0;
      for (std::int64_t k = first; k < first + p.each(); ++k) {
        double sum = 0, product = 0;
        in_parts(p.plane, [&](auto i, auto length) {
          float a = 0, b = 0;
          kernels().batch_norm.backward_sums(dy + k * p.plane + i, x + k * p.plane + i, {}, length,
                                             1, mean + group, &a, &b);
          sum += a;
          product += b;
        });
        sums[k] = sum;
        products[k] = product * invstd[group];
        sum_g += p.scale(k % p.channels) * sums[k];
        sum_gh += p.scale(k % p.channels) * products[k];
      }
      if (dx == nullptr) continue;
      const auto g = p.gradient(sum_g, sum_gh, invstd[group]);
      for (std::int64_t k = first; k < first + p.each(); ++k) {
        const auto a = static_cast<float>(p.scale(k % p.channels) * invstd[group]);
        kernels().batch_norm.backward_apply(dy + k * p.plane, x + k * p.plane, {}, dx + k * p.plane,
                                            nullptr, p.plane, 1, mean + group, &a, &g.b, &g.d,
                                            false);
      }
    }
  });
}

// ---- Rows of channels ----

/// The pixels of one image in channels_last, in parts.
struct PixelRows {
  std::int64_t rows, channels;

  /// Calls f(part, first element, rows) for each part, possibly on several threads.
  template <class F>
  void in_parts(F f) const {
    parallel_for(parts(), rows * channels, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part)
        f(part, part * part_rows() * channels, std::min(part_rows(), rows - part * part_rows()));
    });
  }
  /// Calls add(first element, rows, a, b), which adds a part's terms to two sums of each channel.
  /// Returns the sums over all parts: those of a, then those of b.
  template <class F>
  std::vector<double> sums(F add) const {
    std::vector<float> of_part(static_cast<std::size_t>(parts() * 2 * channels));
    in_parts([&](std::int64_t part, std::int64_t first, std::int64_t count) {
      float* a = of_part.data() + part * 2 * channels;
      add(first, count, a, a + channels);
    });
    std::vector<double> total(static_cast<std::size_t>(2 * channels));
    for (auto part = of_part.begin(); part != of_part.end(); part += 2 * channels)
      for (std::int64_t i = 0; i < 2 * channels; ++i) total[static_cast<std::size_t>(i)] += part[i];
    return total;
  }

 private:
  std::int64_t part_rows() const { return std::max<std::int64_t>(part_length / channels, 1); }
  std::int64_t parts() const { return (rows + part_rows() - 1) / part_rows(); }
};

/// Calls f(image) for each image: each on a thread if there are as many images as threads that
/// could share one, otherwise in turn.
template <class F>
void for_images(const GroupNorm& p, F f) {
  const std::int64_t each = p.channels * p.plane;
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t image = begin; image < end; ++image) f(image);
  };
  if (p.images < threads_for(each)) return run(0, p.images);
  parallel_for(p.images, p.images * each, run);
}

/// The moments of an image's groups, from Σ (x - shift) and Σ (x - shift)² of each channel. `exact`
/// becomes false if the shifts are so far from a group's mean that digits are lost.
std::vector<Moments> moments_of(const GroupNorm& p, const std::vector<float>& shift,
                                const std::vector<double>& sums, double eps, bool& exact) {
  const auto n = static_cast<double>(p.plane), count = n * static_cast<double>(p.each());
  std::vector<Moments> of_group;
  exact = true;
  for (std::int64_t first = 0; first < p.channels; first += p.each()) {
    const auto over_group = [&](auto term) {
      double sum = 0;
      for (std::int64_t c = first; c < first + p.each(); ++c)
        sum +=
            term(static_cast<double>(shift[static_cast<std::size_t>(c)]),
                 sums[static_cast<std::size_t>(c)], sums[static_cast<std::size_t>(p.channels + c)]);
      return sum;
    };
    const double mean = over_group([&](double s, double a, double) { return n * s + a; }) / count;
    const double about_shift = over_group([](double, double, double b) { return b; });
    const double about_mean = over_group([&](double s, double a, double b) {
      return b + 2 * (s - mean) * a + n * (s - mean) * (s - mean);
    });
    exact = exact && about_shift <= 16 * about_mean;  // at most four bits of the f32 sums are lost
    of_group.emplace_back(mean, 0, std::max(about_mean, 0.0), count, eps);
  }
  return of_group;
}

void normalize_rows(const GroupNorm& p, double eps, const float* all, float* out, float* mean,
                    float* invstd) {
  for_images(p, [&](std::int64_t image) {
    const PixelRows pixels{p.plane, p.channels};
    const float* x = all + image * p.plane * p.channels;
    float* y = out + image * p.plane * p.channels;
    const auto channels = static_cast<std::size_t>(p.channels);
    std::vector<float> shift(channels), a(channels), b(channels);
    const auto sums = [&] {
      return pixels.sums([&](auto first, auto rows, float* sum, float* squares) {
        kernels().batch_norm.moments(x + first, rows, p.channels, shift.data(), sum, squares);
      });
    };
    std::copy_n(x, channels, shift.begin());
    bool exact = false;
    std::vector<Moments> of_group = moments_of(p, shift, sums(), eps, exact);
    if (!exact) {  // around the mean
      for (std::size_t c = 0; c < channels; ++c)
        shift[c] = static_cast<float>(of_group[c / static_cast<std::size_t>(p.each())].mean);
      of_group = moments_of(p, shift, sums(), eps, exact);
    }
    for (std::int64_t group = 0; group < p.groups; ++group) {
      const Moments& m = of_group[static_cast<std::size_t>(group)];
      mean[image * p.groups + group] = static_cast<float>(m.mean);
      invstd[image * p.groups + group] = static_cast<float>(m.invstd);
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const auto f =
          p.affine(of_group[c / static_cast<std::size_t>(p.each())], static_cast<std::int64_t>(c));
      shift[c] = f.mean;
      a[c] = f.a;
      b[c] = f.b;
    }
    pixels.in_parts([&](auto, auto first, auto rows) {
      kernels().batch_norm.apply(x + first, nullptr, y + first, nullptr, rows, p.channels,
                                 shift.data(), a.data(), b.data(), false, false);
    });
  });
}

void rows_backward(const GroupNorm& p, const float* dy_all, const float* x_all, const float* mean,
                   const float* invstd, float* dx_all, double* sums, double* products) {
  for_images(p, [&](std::int64_t image) {
    const PixelRows pixels{p.plane, p.channels};
    const std::int64_t at = image * p.plane * p.channels;
    const float *dy = dy_all + at, *x = x_all + at;
    const auto n = static_cast<std::size_t>(p.channels);
    std::vector<float> means(n), a(n), b(n), d(n);
    for (std::int64_t c = 0; c < p.channels; ++c)
      means[static_cast<std::size_t>(c)] = mean[image * p.groups + c / p.each()];
    const std::vector<double> total =
        pixels.sums([&](auto first, auto rows, float* sum, float* product) {
          kernels().batch_norm.backward_sums(dy + first, x + first, {}, rows, p.channels,
                                             means.data(), sum, product);
        });
    for (std::int64_t c = 0; c < p.channels; c += p.each()) {
      const double s = invstd[image * p.groups + c / p.each()];
      double sum_g = 0, sum_gh = 0;
      for (std::int64_t k = c; k < c + p.each(); ++k) {
        const std::int64_t i = image * p.channels + k;
        sums[i] = total[static_cast<std::size_t>(k)];
        products[i] = total[static_cast<std::size_t>(p.channels + k)] * s;
        sum_g += p.scale(k) * sums[i];
        sum_gh += p.scale(k) * products[i];
      }
      const auto g = p.gradient(sum_g, sum_gh, s);
      for (auto k = static_cast<std::size_t>(c); k < static_cast<std::size_t>(c + p.each()); ++k) {
        a[k] = static_cast<float>(p.scale(static_cast<std::int64_t>(k)) * s);
        b[k] = g.b;
        d[k] = g.d;
      }
    }
    if (dx_all == nullptr) return;
    pixels.in_parts([&](auto, auto first, auto rows) {
      kernels().batch_norm.backward_apply(dy + first, x + first, {}, dx_all + at + first, nullptr,
                                          rows, p.channels, means.data(), a.data(), b.data(),
                                          d.data(), false);
    });
  });
}

}  // namespace

bool CpuBackend::has_group_norm(const Tensor& x) const { return x.dtype() == f32; }

MemoryFormat CpuBackend::group_norm_format(const Tensor& x) const { return x.suggested_format(); }

void CpuBackend::do_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma,
                               const Tensor& beta, double eps, const Tensor& y, const Tensor& mean,
                               const Tensor& invstd) {
  const auto normalize = x.is_contiguous() ? normalize_planes : normalize_rows;
  normalize(GroupNorm(x, groups, gamma, beta), eps, x.data_ptr<float>(), y.data_ptr<float>(),
            mean.data_ptr<float>(), invstd.data_ptr<float>());
}

void CpuBackend::do_group_norm_backward(const Tensor& dy, const Tensor& x, std::int64_t groups,
                                        const Tensor& gamma, const Tensor& mean,
                                        const Tensor& invstd, const Tensor& dx,
                                        const Tensor& dgamma, const Tensor& dbeta) {
  const GroupNorm p(x, groups, gamma, {});
  std::vector<double> sums(static_cast<std::size_t>(p.images * p.channels));
  std::vector<double> products(sums.size());
  const auto backward = x.is_contiguous() ? planes_backward : rows_backward;
  backward(p, dy.data_ptr<float>(), x.data_ptr<float>(), mean.data_ptr<float>(),
           invstd.data_ptr<float>(), space_of(dx), sums.data(), products.data());
  const auto over_images = [&](const std::vector<double>& of, const Tensor& to) {
    for (std::int64_t c = 0; to.defined() && c < p.channels; ++c) {
      double total = 0;
      for (std::int64_t i = 0; i < p.images; ++i) total += of[i * p.channels + c];
      to.data_ptr<float>()[c] = static_cast<float>(total);
    }
  };
  over_images(products, dgamma);
  over_images(sums, dbeta);
}

}  // namespace rondo::cpu
