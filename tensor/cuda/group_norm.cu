// Group norm of x (N, C, …) in f32; tensor/cpu/group_norm.cpp has the formulas. Forward is layer
// norm's kernel with a scale and shift for each channel. Backward first sums dy and dy h over each
// plane. All three gradients follow from these sums: dx reads x and dy once more, and those of
// gamma and beta add the planes of all images.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/reduction_rule.h"

namespace rondo::cuda {
namespace {

/// The sum over all threads of a group, added in f64.
template <class Group>
RONDO_HD double sum_over(const Group& group, double sum) {
  return group.reduce(sum, [](double a, double b) { return a + b; });
}

/// y = (x - mean) invstd gamma_c + beta_c, for one group of `each` channels.
template <class T>
struct GroupNorm {
  Lines<2> lines;  // x, y
  const float *gamma, *beta;
  float *mean, *invstd;
  float eps;
  std::int64_t length, each;
  double share;                 // 1 / length
  Divisor by_groups, by_plane;  // divide by the number of groups, and of packs of a plane

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t row) const {
    using Line = Run<float, T>;
    const auto at = lines.starts.locate(row);
    const Line x(lines, at, 0), y(lines, at, 1);
    const std::int64_t packs = length / Line::width;
    double total = 0;
    for (std::int64_t i = group.thread(); i < packs; i += group.size())
      for (float v : x.load(i).v) total += v;
    const auto m = static_cast<float>(sum_over(group, total) * share);
    float squares = 0;
    for (std::int64_t i = group.thread(); i < packs; i += group.size())
      for (float v : x.load(i).v) squares += (v - m) * (v - m);
    const float s = 1 / std::sqrt(static_cast<float>(sum_over(group, squares) * share) + eps);
    if (group.thread() == 0) {
      mean[row] = m;
      invstd[row] = s;
    }
    const std::int64_t first = (row - by_groups.divide(row) * by_groups.value()) * each;
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) {
      const std::int64_t channel = first + by_plane.divide(i);
      const float scale = gamma != nullptr ? gamma[channel] : 1;
      const float shift = beta != nullptr ? beta[channel] : 0;
      auto numbers = x.load(i);
      for (float& v : numbers.v) v = (v - m) * s * scale + shift;
      y.store(i, numbers);
    }
  }
};

/// Σ dy and Σ dy h of each plane.
template <class T>
struct PlaneSums {
  Lines<2> lines;  // dy, x
  const float *mean, *invstd;
  float *sums, *products;
  std::int64_t length;
  Divisor by_each;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t row) const {
    using Line = Run<float, T>;
    const auto at = lines.starts.locate(row);
    const Line dy(lines, at, 0), x(lines, at, 1);
    const std::int64_t of_group = by_each.divide(row);
    const float m = mean[of_group];
    float sum = 0, product = 0;
    for (std::int64_t i = group.thread(); i < length / Line::width; i += group.size()) {
      const auto g = dy.load(i), v = x.load(i);
      for (int k = 0; k < Line::width; ++k) {
        sum += g.v[k];
        product += g.v[k] * (v.v[k] - m);
      }
    }
    const double all = sum_over(group, sum), all_products = sum_over(group, product);
    if (group.thread() > 0) return;
    sums[row] = static_cast<float>(all);
    products[row] = static_cast<float>(all_products * invstd[of_group]);
  }
};

/// dx = invstd (g - mean(g) - h mean(g h)), g = dy gamma_c, for one plane.
template <class T>
struct GroupNormGradient {
  Lines<3> lines;  // dy, x, dx
  const float *gamma, *mean, *invstd, *sums, *products;
  std::int64_t length, groups, each;
  double share;     // 1 / (length each)
  Divisor by_each;  // divides by the number of channels of a group

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t row) const {
    using Line = Run<float, T>;
    const auto at = lines.starts.locate(row);
    const Line dy(lines, at, 0), x(lines, at, 1), dx(lines, at, 2);
    const std::int64_t of_group = by_each.divide(row), first = of_group * each;
    const float* scales = gamma != nullptr ? gamma + of_group % groups * each : nullptr;
    const auto scale_of = [&](std::int64_t k) { return scales != nullptr ? scales[k] : 1.0f; };
    double sum = 0, product = 0;
    for (std::int64_t k = group.thread(); k < each; k += group.size()) {
      sum += static_cast<double>(scale_of(k)) * sums[first + k];
      product += static_cast<double>(scale_of(k)) * products[first + k];
    }
    const auto mean_g = static_cast<float>(sum_over(group, sum) * share);
    const auto mean_gh = static_cast<float>(sum_over(group, product) * share);
    const float m = mean[of_group], s = invstd[of_group], scale = scale_of(row - first);
    for (std::int64_t i = group.thread(); i < length / Line::width; i += group.size()) {
      auto g = dy.load(i);
      const auto v = x.load(i);
      for (int k = 0; k < Line::width; ++k)
        g.v[k] = s * (g.v[k] * scale - mean_g - (v.v[k] - m) * s * mean_gh);
      dx.store(i, g);
    }
  }
};

/// A contiguous tensor as lines of n elements.
Tensor as_lines(const Tensor& x, std::int64_t n) {
  return x.as_view({x.numel() / n, n}, {n, 1}, x.storage_offset());
}
const float* values_of(const Tensor& v) { return v.defined() ? v.data_ptr<float>() : nullptr; }

/// Calls f.operator()<T>() with the type of Run's packs, for planes of lines' tensors.
template <std::size_t N, class F>
void visit_planes(const Lines<N>& lines, std::int64_t plane, F&& f) {
  visit_runs("group_norm", lines, N, plane, [&]<class C, class T>() {
    if constexpr (std::is_same_v<C, float> && (std::is_void_v<T> || std::is_same_v<T, float>))
      f.template operator()<T>();
  });
}

}  // namespace

bool CudaBackend::has_group_norm(const Tensor& x) const { return x.dtype() == f32; }

void CudaBackend::do_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma,
                                const Tensor& beta, double eps, const Tensor& y, const Tensor& mean,
                                const Tensor& invstd) {
  const std::int64_t each = x.size(1) / groups, plane = x.numel() / (x.size(0) * x.size(1));
  const std::int64_t n = each * plane;
  const Tensor from = as_lines(x, n), to = as_lines(y, n);
  const Lines<2> lines(1, {&from, &to});
  visit_planes(lines, plane, [&]<class T>() {
    constexpr std::int64_t width = Run<float, T>::width;
    for_rows(device_, lines.count, n / width,
             GroupNorm<T>{lines, values_of(gamma), values_of(beta), mean.data_ptr<float>(),
                          invstd.data_ptr<float>(), static_cast<float>(eps), n, each,
                          1 / static_cast<double>(n), Divisor(groups), Divisor(plane / width)});
  });
}

void CudaBackend::do_group_norm_backward(const Tensor& dy, const Tensor& x, std::int64_t groups,
                                         const Tensor& gamma, const Tensor& mean,
                                         const Tensor& invstd, const Tensor& dx,
                                         const Tensor& dgamma, const Tensor& dbeta) {
  const std::int64_t images = x.size(0), channels = x.size(1), each = channels / groups;
  const std::int64_t plane = x.numel() / (images * channels);
  const Tensor sums = Tensor::empty({images, channels}, {.device = x.device()});
  const Tensor products = Tensor::empty_like(sums);
  const Tensor of_dy = as_lines(dy, plane), of_x = as_lines(x, plane);
  const Lines<2> lines(1, {&of_dy, &of_x});
  visit_planes(lines, plane, [&]<class T>() {
    for_rows(device_, lines.count, plane / Run<float, T>::width,
             PlaneSums<T>{lines, values_of(mean), values_of(invstd), sums.data_ptr<float>(),
                          products.data_ptr<float>(), plane, Divisor(each)});
  });
  if (dx.defined()) {
    const Tensor of_dx = as_lines(dx, plane);
    const Lines<3> all(1, {&of_dy, &of_x, &of_dx});
    visit_planes(all, plane, [&]<class T>() {
      for_rows(device_, all.count, plane / Run<float, T>::width,
               GroupNormGradient<T>{all, values_of(gamma), values_of(mean), values_of(invstd),
                                    values_of(sums), values_of(products), plane, groups, each,
                                    1 / static_cast<double>(plane * each), Divisor(each)});
    });
  }
  const auto over_images = [&](const Tensor& parts, const Tensor& to) {
    if (to.defined())
      do_reduce(ReductionOp::sum, parts,
                to.as_view({1, channels}, {channels, 1}, to.storage_offset()));
  };
  over_images(products, dgamma);
  over_images(sums, dbeta);
}

}  // namespace rondo::cuda
