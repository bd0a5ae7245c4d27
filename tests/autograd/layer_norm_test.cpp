// layer_norm, rms_norm and group_norm have f32 kernels on the CPU. These tests compare them with
// f64, which is composed of ops, for every combination of wanted gradients.

#include <omp.h>

#include <cmath>
#include <functional>

#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/cpu/cpu_backend.h"

namespace rondo {
namespace {

using test::all_close, test::as;

using Norm = std::function<Tensor(const Tensor& x, const Tensor& gamma, const Tensor& beta)>;

/// y and the gradients of x, gamma, beta; undefined where not in `wanted` (one bit each).
Tensors results(const Norm& norm, const Tensors& inputs, unsigned wanted, const Tensor& dy) {
  Tensors in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(inputs[i].defined() ? as(inputs[i], dy.dtype()) : inputs[i]);
    if (in[i].defined()) in[i].requires_grad_((wanted >> i & 1) != 0);
  }
  const Tensor y = norm(in[0], in[1], in[2]);
  if (y.requires_grad()) y.backward(dy);
  Tensors out{y.detach()};
  for (const Tensor& t : in) out.push_back(t.defined() ? t.grad() : Tensor());
  return out;
}

Tensor rms(const Tensor& x, const Tensor& gamma, const Tensor& /*beta*/) {
  return rms_norm(x, {x.size(-1)}, gamma, 1e-5);
}

/// x has `terms` values per channel, over which the gradients of gamma and beta are summed, and the
/// standard deviation `deviation`.
void expect_that_of_f64(const Norm& norm, const Tensor& x, std::int64_t channels,
                        std::int64_t terms, double deviation = 1, bool has_beta = true) {
  const Tensor dy = randn(x.shape());
  const unsigned choices = has_beta ? 4 : 2;  // bits: gamma is given, beta is given
  for (unsigned factors = 0; factors < choices; ++factors) {
    const Tensor gamma = factors & 1 ? randn({channels}) : Tensor();
    const Tensor beta = factors & 2 ? randn({channels}) : Tensor();
    const unsigned there = 1 | factors << 1;
    for (unsigned wanted = 0; wanted < 8; ++wanted) {
      if ((wanted & ~there) != 0) continue;
      const Tensors got = results(norm, {x, gamma, beta}, wanted, dy);
      const Tensors want = results(norm, {x, gamma, beta}, wanted, as(dy, f64));
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
        EXPECT_EQ(got[i].defined(), i == 0 || (wanted >> (i - 1) & 1) != 0) << i;
        if (!got[i].defined()) continue;
        // x: a few roundings of numbers up to 16. gamma, beta: sums of terms dy h, which are at
        // most 8.
        const double tolerance =
            i < 2 ? test::tolerance(f32, 4, 16 / deviation) : test::tolerance(f32, terms, 8);
        EXPECT_TRUE(all_close(as(got[i], f64), want[i], tolerance))
            << "input " << x.shape() << ", factors " << factors << ", wanted " << wanted
            << ", result " << i;
      }
    }
  }
}

/// (rows, n) with columns far apart, so that the few values of a short row are never close
/// together: 1 / deviation would multiply the roundings of x.
Tensor columns_apart(std::int64_t rows, std::int64_t n) {
  Tensor x = Tensor::empty({n, rows});
  for (std::int64_t c = 0; c < n; ++c)
    x.narrow(0, c, 1).copy_(rand({1, rows}) + static_cast<double>(3 * (c % 3)));
  return contiguous(x.t());
}

/// Sums over rows are split into blocks of 64 rows and at most 64 parts, and sums of few long rows
/// into parts of 512 columns.
TEST(LayerNorm, RowsOfAnyLengthAndNumberAreThoseOfF64) {
  struct Sizes {
    std::int64_t rows, n;
  };
  for (const auto [rows, n] : {Sizes{1, 1},
                               {1, 5},
                               {3, 16},
                               {63, 17},
                               {64, 3},
                               {65, 40},
                               {200, 768},
                               {1, 1024},
                               {70, 1500},
                               {5000, 8},
                               {4097, 33}}) {
    const Norm norm = [n = n](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
      return layer_norm(x, {n}, gamma, beta);
    };
    const double deviation = n == 1 ? std::sqrt(1e-5) : 1;  // from eps alone
    expect_that_of_f64(norm, columns_apart(rows, n), n, rows, deviation);
    expect_that_of_f64(rms, columns_apart(rows, n) + 0.5, n, rows, 0.5, false);
  }
}

/// Rows of 16-bit floats are widened one at a time, also in parts, and each result is rounded once.
TEST(LayerNorm, RowsOfSixteenBitsAreThoseOfF32Rounded) {
  for (const DType dtype : {bf16, f16})
    for (const Dims& sizes : {Dims{70, 1500}, {4097, 33}, {5000, 8}, {3, 1}}) {
      const std::int64_t n = sizes[1];
      const Norm norm = [n](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
        return layer_norm(x, {n}, gamma, beta);
      };
      const Tensors in = {as(randn(sizes), dtype), as(randn({n}), dtype), as(randn({n}), dtype)};
      const Tensor dy = as(randn(sizes), dtype);
      const Tensors wide = {as(in[0], f32), as(in[1], f32), as(in[2], f32)};
      for (const unsigned wanted : {7u, 6u, 1u, 2u}) {
        const Tensors got = results(norm, in, wanted, dy),
                      want = results(norm, wide, wanted, as(dy, f32));
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
          if (got[i].defined()) {
            EXPECT_EQ(got[i].dtype(), dtype);
            EXPECT_TRUE(test::identical(got[i], as(want[i], dtype))) << sizes << ' ' << wanted << i;
          }
        }
      }
    }
}

TEST(LayerNorm, TakesSeveralDimensionsOfAnyLayout) {
  const Tensor x = columns_apart(6, 20).view({2, 3, 4, 5}), gamma = randn({4, 5});
  const Tensor want = layer_norm(as(x, f64), {4, 5}, as(gamma, f64), {});
  const Tensor turned = as(x, f32, MemoryFormat::channels_last);
  for (const Tensor& in : {x, turned})
    EXPECT_TRUE(
        all_close(as(layer_norm(in, {4, 5}, gamma, {}), f64), want, test::tolerance(f32, 4, 16)));
}

/// Planes are shorter and longer than what is added up in f32 at once (16,384), and their sizes are
/// not multiples of a vector. Groups have one channel, some, or all.
TEST(GroupNorm, GroupsOfAnySizeAreThoseOfF64) {
  struct Case {
    Dims sizes;
    std::int64_t groups;
  };
  for (const auto& [sizes, groups] : {Case{{3, 8, 5, 7}, 2},
                                      {{2, 6, 3}, 6},
                                      {{5, 4}, 1},
                                      {{3, 5, 4, 4}, 5},
                                      {{1, 2, 150, 151}, 1},
                                      {{40, 3, 2, 2}, 3}}) {
    const std::int64_t n = numel_of(sizes) / sizes[0];
    const Norm norm = [groups = groups](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
      return group_norm(x, groups, gamma, beta);
    };
    expect_that_of_f64(norm, columns_apart(sizes[0], n).view(sizes), sizes[1],
                       numel_of(sizes) / sizes[1]);
  }
}

/// Images are larger and smaller than what is added up in f32 at once (16,384), and rows of
/// channels are longer than that, a part of a vector, and one.
TEST(GroupNorm, KeepsChannelsLast) {
  struct Case {
    Dims sizes;
    std::int64_t groups;
  };
  for (const auto& [sizes, groups] : {Case{{3, 8, 5, 7}, 2},
                                      {{1, 64, 31, 33}, 8},
                                      {{2, 12, 40, 35}, 12},
                                      {{9, 5, 4, 4}, 1},
                                      {{1, 16400, 1, 4}, 4},
                                      {{4, 32, 2, 2}, 4},
                                      {{3, 1, 5, 7}, 1}}) {
    const std::int64_t n = numel_of(sizes) / sizes[0];
    const Norm norm = [groups = groups](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
      const Tensor y = group_norm(contiguous(x, MemoryFormat::channels_last), groups, gamma, beta);
      if (x.dtype() == f32) {
        EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
      }
      return y;
    };
    expect_that_of_f64(norm, columns_apart(sizes[0], n).view(sizes), sizes[1],
                       numel_of(sizes) / sizes[1]);
  }
}

/// In the first image the first pixel, around which moments are summed first, is far from the
/// others. That must cost no digits: summed once, the largest error would be 1.8.
TEST(GroupNorm, TheFirstPixelMayBeFarAway) {
  const Dims sizes{3, 8, 150, 150};
  const Tensor x = as(randn(sizes), f32, MemoryFormat::channels_last);
  x[0].narrow(1, 0, 1).narrow(2, 0, 1).fill_(1e5);
  x[1].copy_(x[1] + 4096);
  // A few halves of the spacing at 4096, 2^-12, where the deviation is 1.
  EXPECT_TRUE(all_close(as(group_norm(x, 2), f64), group_norm(as(x, f64), 2), 0x1p-10));
}

/// A NaN changes neither the layout nor other images.
TEST(GroupNorm, KeepsChannelsLastWithHugeNumbersAndNaN) {
  const Tensor x = as(randn({3, 8, 6, 6}), f32, MemoryFormat::channels_last);
  x[0].narrow(1, 0, 1).fill_(std::nan(""));
  x[1].narrow(1, 0, 1).fill_(1e30);
  const Tensor y = group_norm(x, 2);
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(all_close(as(y[2], f64), group_norm(as(x, f64), 2)[2], 0x1p-18));
}

/// The sums are those of parts of fixed lengths, whether threads share images or an image.
TEST(GroupNorm, HasTheSameBitsWithAnyNumberOfThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it is not told what OpenMP's threads wait for";
#endif
  const int threads = omp_get_max_threads();
  for (const std::int64_t images : {1, 5}) {
    const Tensor x = as(randn({images, 32, 61, 63}), f32, MemoryFormat::channels_last);
    const Tensor dy = as(randn(x.shape()), f32, MemoryFormat::channels_last);
    std::vector<Tensors> results;
    for (const int n : {1, 2, 3, 7}) {
      omp_set_num_threads(n);
      Tensor in = x.detach().requires_grad_(true), gamma = ones({32}).requires_grad_(true);
      const Tensor y = group_norm(in, 4, gamma);
      y.backward(dy);
      results.push_back({y.detach(), in.grad(), gamma.grad()});
    }
    for (const Tensors& each : results)
      for (std::size_t i = 0; i < each.size(); ++i)
        EXPECT_TRUE(test::identical(each[i], results[0][i])) << images << ' ' << i;
  }
  omp_set_num_threads(threads);
}

/// If the mean is large compared to the deviation, the variance must be computed around the mean.
TEST(RowNorms, KeepTheirDigitsFarFromZero) {
  const Tensor x = columns_apart(4, 600) + 4096, wide = as(x, f64);
  const Tensor want = layer_norm(wide, {600});
  // Half a spacing of error: in the mean, 2^-12 divided by the deviation of 2.4; or in x scale and
  // mean scale, which are about 1,700, 2^-14 each.
  const double tolerance = 0x1p-13 + test::tolerance(f32, 1, 2);
  EXPECT_TRUE(all_close(as(layer_norm(x, {600}), f64), want, tolerance));
  const Dims planes{4, 6, 10, 10};
  EXPECT_TRUE(all_close(as(group_norm(x.view(planes), 1), f64), want.view(planes), tolerance));
}

TEST(RowNorms, OfEqualNumbersAreNearlyZero) {
  const Tensor x = full({2, 4, 6, 6}, 1000), gamma = ones({4}), beta = zeros({4});
  EXPECT_TRUE(all_close(layer_norm(x, {6, 6}), zeros(x.shape()), 0));
  // x scale + offset, with a scale of 1 / sqrt(eps) = 316: half a spacing at 316,228.
  EXPECT_TRUE(all_close(group_norm(x, 2, gamma, beta), zeros(x.shape()), 0x1p-6));
}

/// Calls the methods of a device that has no kernels for these norms.
struct WithoutNorms final : cpu::CpuBackend {
  void expect_errors() {
    const Tensor x = ones({2, 4}), one = ones({2});
    EXPECT_ERROR(Backend::do_layer_norm(x, {}, {}, 1e-5, x, one, one), DeviceError,
                 "layer_norm: cpu has no kernel for f32");
    EXPECT_ERROR(Backend::do_layer_norm_backward(x, x, {}, one, one, x, {}, {}), DeviceError,
                 "layer_norm: cpu has no kernel for f32");
    EXPECT_ERROR(Backend::do_group_norm(x, 1, {}, {}, 1e-5, x, one, one), DeviceError,
                 "group_norm: cpu has no kernel for f32");
    EXPECT_ERROR(Backend::do_group_norm_backward(x, x, 1, {}, one, one, x, {}, {}), DeviceError,
                 "group_norm: cpu has no kernel for f32");
  }
};

TEST(RowNorms, WithoutAKernelSayOfWhat) { WithoutNorms().expect_errors(); }

TEST(RowNorms, TakeParametersOfTheirInputsSixteenBits) {
  const Tensor x = as(columns_apart(9, 48), bf16), gamma = as(randn({48}), bf16),
               beta = as(randn({48}), bf16), dy = as(randn({9, 48}), bf16);
  for (const Norm& norm :
       {Norm(rms), Norm([](const Tensor&x, const Tensor&gamma, const Tensor&beta) {
          return layer_norm(x, {48}, gamma, beta);
        }),
        Norm([](const Tensor&x, const Tensor&gamma, const Tensor&beta) {
          return group_norm(x, 4, gamma, beta);
        })}) {
    const Tensors got = results(norm, {x, gamma, beta}, 7, dy);
    const Tensors want = results(norm, {x, gamma, beta}, 7, as(dy, f64));
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!want[i].defined()) continue;  // rms_norm has no beta
      EXPECT_EQ(got[i].dtype(), bf16);
      // Computed in f32 and rounded once, or twice if a gradient passes through a conversion.
      EXPECT_TRUE(all_close(as(got[i], f64), want[i], 0x1p-8 / 16, 0x1p-8)) << i;
    }
  }
}

TEST(RowNorms, BitsDoNotDependOnThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it is not told what OpenMP's threads wait for";
#endif
  const int threads = omp_get_max_threads();
  const Norm layer = [](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    return layer_norm(x, {x.size(1)}, gamma, beta);
  };
  const Norm group = [](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    return group_norm(x, 4, gamma, beta);
  };
  for (const auto& [sizes, norm] :
       {std::pair{Dims{3000, 96}, layer}, {Dims{90, 4000}, layer}, {Dims{12, 96, 9, 30}, group}}) {
    const Tensor x = randn(sizes), dy = randn(sizes), gamma = randn({sizes[1]});
    const Tensor beta = randn({sizes[1]});
    Tensors first;
    for (const int n : {1, 2, 7}) {
      omp_set_num_threads(n);
      const Tensors now = results(norm, {x, gamma, beta}, 7, dy);
      if (first.empty()) first = now;
      for (std::size_t i = 0; i < now.size(); ++i)
        EXPECT_TRUE(test::identical(now[i], first[i])) << n << " threads, result " << i;
    }
  }
  omp_set_num_threads(threads);
}

/// PyTorch's numbers are in composed_norm_test.cpp and tests/nn/layers_test.cpp.
TEST(RowNorms, OfRowsAreOneNode) {
  const Tensor x = randn({3, 8}).requires_grad_(), gamma = ones({8});
  for (const auto& [y, name] :
       {std::pair{rms(x, gamma, {}), "rms_norm"}, {layer_norm(x, {8}, gamma), "layer_norm"}})
    EXPECT_STREQ(autograd_meta(y).grad_fn->edges[0].node->name(), name);  // before a reshape
}

TEST(RowNorms, SecondDerivativesOfTheKernelsAreThoseOfTheOps) {
  const Tensor x = columns_apart(6, 12), gamma = randn({12}), dy = randn({6, 12});
  const Norm layer = [](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    return layer_norm(x, {12}, gamma, beta);
  };
  const Norm group = [](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    return group_norm(x, 3, gamma, beta);
  };
  for (const Norm& norm : {layer, Norm(rms), group}) {
    const auto run = [&](DType dtype) {
      const Tensor in = as(x, dtype).requires_grad_(), scale = as(gamma, dtype).requires_grad_();
      const Tensor y = norm(in, scale, zeros({12}, {.dtype = dtype}));
      const Tensors first =
          grad({y}, {in, scale}, {.grad_outputs = {as(dy, dtype)}, .create_graph = true});
      return grad({(first[0] * first[0]).sum() + (first[1] * first[1]).sum()}, {in, scale});
    };
    const Tensors got = run(f32), want = run(f64);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(all_close(as(got[i], f64), want[i], test::tolerance(f32, 12, 32))) << i;
  }
}

TEST(GroupNorm, EmptyBatches) {
  Tensor x = empty({0, 4, 2, 2}).requires_grad_(), gamma = ones({4}).requires_grad_();
  Tensor y = group_norm(x, 2, gamma);
  EXPECT_EQ(y.shape(), (Dims{0, 4, 2, 2}));
  y.sum().backward();
  EXPECT_EQ(gamma.grad().to_vector(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(group_norm(empty({2, 4, 0}), 2).shape(), (Dims{2, 4, 0}));
}

}  // namespace
}  // namespace rondo
