// Kernels that reduce, scan, sort or copy, against the CPU's, at the lengths where the shapes of
// kernels change: part of a warp, a warp, one more, several warps, a block, several blocks, and
// lengths that do not fill 16 bytes.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/statistics.h"
#include "autograd/ops/subscript.h"
#include "support/layouts.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/cuda.h"

namespace rondo::test {
namespace {

constexpr std::int64_t lengths[] = {1, 8, 10, 31, 32, 33, 65, 256, 300, 513, 1024, 1032, 8193};
constexpr DType dtypes[] = {f32, bf16, f64};

class GpuLengths : public ::testing::Test {
 protected:
  GpuLengths() {
    if (cuda::device_count() == 0) simulated_.emplace();
    manual_seed(1);
  }
  /// f of x on the GPU equals f of the same x on the CPU, up to sums of n terms in x's dtype.
  static void expect_same(const std::string& what, const Tensor& x, std::int64_t n,
                          const std::function<Tensor(const Tensor&)>& f) {
    const Tensor want = f(x), got = f(x.to(Device::cuda())).to(Device::cpu());
    const double of_sums = tolerance(x.dtype() == f64 ? f64 : f32, n, std::sqrt(double(n)));
    EXPECT_TRUE(all_close(got.to(f64), want.to(f64), of_sums, tolerance(x.dtype())))
        << what << ' ' << x.shape() << ' ' << x.dtype();
  }

 private:
  std::optional<SimulatedGpus> simulated_;
};

TEST_F(GpuLengths, ReduceRowsColumnsAndAll) {
  for (DType dtype : dtypes) {
    for (std::int64_t n : lengths) {
      const Tensor wide = randn({3, n}).to(dtype), tall = randn({n, 24}).to(dtype);
      for (const Tensor& x : {wide, tall}) {
        for (std::int64_t dim : {0, 1}) {
          expect_same("sum", x, n, [&](const Tensor& t) { return sum(t, {dim}); });
          expect_same("max", x, 1, [&](const Tensor& t) { return max(t, dim).values; });
        }
        expect_same("sum of all", x, x.numel(), [](const Tensor& t) { return sum(t); });
      }
    }
  }
}

TEST_F(GpuLengths, ReduceManySegmentsAndALongOne) {
  expect_same("sum", randn({70000, 3}), 3, [](const Tensor& t) { return sum(t, {1}); });
  expect_same("sum", randn({3, 70000}), 70000, [](const Tensor& t) { return sum(t, {1}); });
  expect_same("sum", randn({70000, 3}), 70000, [](const Tensor& t) { return sum(t, {0}); });
  expect_same("softmax", randn({2, 70000}), 1, [](const Tensor& t) { return softmax(t, 1); });
  expect_same("cumsum", randn({2, 70000}), 70000, [](const Tensor& t) { return cumsum(t, 1); });
}

TEST_F(GpuLengths, NormaliseAndScanLines) {
  for (DType dtype : dtypes) {
    for (std::int64_t n : lengths) {
      const Tensor x = randn({5, n}).to(dtype);
      for (std::int64_t dim : {0, 1}) {
        expect_same("softmax", x, 1, [&](const Tensor& t) { return softmax(t, dim); });
        expect_same("log_softmax", x, 8, [&](const Tensor& t) { return log_softmax(t, dim); });
        expect_same("cumsum", x, n, [&](const Tensor& t) { return cumsum(t, dim); });
      }
      expect_same("gradient of softmax", x, 8, [&](const Tensor& t) {
        const Tensor leaf = t.detach().requires_grad_();
        (softmax(leaf, 1) * t).sum().backward();
        return leaf.grad();
      });
    }
  }
}

TEST_F(GpuLengths, CrossEntropyOfLines) {
  for (DType dtype : {f32, bf16}) {
    for (std::int64_t n : {1, 10, 31, 32, 33, 64, 65, 300, 512, 513, 8192, 8193, 70000}) {
      const Tensor target = randint(0, n, {3});
      expect_same("cross_entropy", randn({3, n}).to(dtype), 8, [&](const Tensor& t) {
        const Tensor leaf = t.detach().requires_grad_();
        const Tensor loss = cross_entropy(leaf, target.to(t.device()));
        loss.backward();
        return cat({loss.detach().reshape({1}).to(f64), leaf.grad().flatten().to(f64)}, 0);
      });
    }
  }
  expect_same("gradient of softmax", randn({2, 70000}), 8, [](const Tensor& t) {
    const Tensor leaf = t.detach().requires_grad_();
    softmax(leaf, 1).backward(t);
    return leaf.grad();
  });
}

// The sum of exponentials is scaled when its thread, or another one, meets a larger number.
TEST_F(GpuLengths, ExponentialsOfSpecialLines) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {f32, bf16, f16}) {
    for (std::int64_t n : {33, 512, 513, 8192}) {
      const Tensor x = randn({8, n}, {.dtype = f64});
      x[0].copy_(linspace(-60, 60, n));
      x[1].copy_(linspace(60, -60, n));
      x[2].narrow(0, 0, n - 1).fill_(-inf);
      x[3].narrow(0, 1, n - 1).fill_(-inf);
      x[4].fill_(-inf);
      x[5].narrow(0, n / 2, 1).fill_(inf);
      x[6].narrow(0, n - 2, 1).fill_(NAN);
      const Tensor lines = x.to(dtype), target = randint(0, n, {8});
      expect_same("softmax", lines, 1, [](const Tensor& t) { return softmax(t, 1); });
      expect_same("log_softmax", lines, 64, [](const Tensor& t) { return log_softmax(t, 1); });
      for (const double smoothing : {0.0, 0.1})
        expect_same("cross_entropy", lines, 64, [&](const Tensor& t) {
          const Tensor leaf = t.detach().requires_grad_();
          const Tensor loss =
              cross_entropy(leaf, target.to(t.device()),
                            {.reduction = Reduction::none, .label_smoothing = smoothing});
          loss.sum().backward();
          return cat({loss.detach().to(f64), leaf.grad().flatten().to(f64)}, 0);
        });
    }
  }
}

TEST_F(GpuLengths, SumsByIndex) {
  for (std::int64_t n : {1, 10, 33, 300, 513}) {
    const Tensor index = randint(0, 40, {n});
    expect_same("index_add", randn({n, 24}), n, [&](const Tensor& t) {
      return index_add(zeros({40, 24}, t.options()), 0, index.to(t.device()), t);
    });
  }
}

TEST_F(GpuLengths, SortLines) {
  for (DType dtype : dtypes) {
    for (std::int64_t n : lengths) {
      const Tensor x = randn({5, n}).to(dtype);
      for (std::int64_t dim : {0, 1})
        expect_same("sort", x, 1, [&](const Tensor& t) { return sort(t, dim).values; });
    }
  }
}

TEST_F(GpuLengths, SortLongLines) {
  expect_same("sort", randn({2, 70000}), 1, [](const Tensor& t) { return sort(t, 1).values; });
}

// The lengths above, and in f32 a segment of more than 65,536.
TEST_F(GpuLengths, ScansAndFoldsOfEveryKind) {
  std::vector<std::int64_t> all(std::begin(lengths), std::end(lengths));
  all.push_back(70000);
  for (DType dtype : {f32, f64}) {
    for (std::int64_t n : all) {
      if (n > 10'000 && dtype != f32) continue;
      const std::int64_t lines = n > 10'000 ? 1 : 3;
      const Tensor x = randn({lines, n}).to(dtype), near_one = 1 + x * 1e-3;
      expect_same("cumprod", near_one, n, [](const Tensor& t) { return cumprod(t, 1); });
      expect_same("logcumsumexp", x, n, [](const Tensor& t) { return logcumsumexp(t, 1); });
      expect_same("cummax", x, 1, [](const Tensor& t) { return cummax(t, 1).values; });
      expect_same("cummin", x, 1, [](const Tensor& t) { return cummin(t, 1).indices; });
      expect_same("logsumexp", x, n, [](const Tensor& t) { return logsumexp(t, {1}); });
      expect_same("prod", near_one, n, [](const Tensor& t) { return prod(t, {1}); });
      expect_same("norm", x, n, [](const Tensor& t) { return norm(t, {1}); });
      expect_same("argmax", x, 1, [](const Tensor& t) { return argmax(t, 1); });
      expect_same("count_nonzero", x, 1, [](const Tensor& t) { return count_nonzero(t, {1}); });
      if (n > 1) expect_same("var", x, n, [](const Tensor& t) { return var(t, {1}); });
    }
  }
}

TEST_F(GpuLengths, NormaliseLinesAndGroups) {
  std::vector<std::int64_t> all(std::begin(lengths), std::end(lengths));
  all.push_back(70000);
  for (DType dtype : {f32, bf16, f16, f64}) {
    for (std::int64_t n : all) {
      if (n > 10'000 && dtype != f32) continue;
      const std::int64_t images = n > 10'000 ? 1 : 2;
      const Tensor x = (randn({images, 4, n}) * 2 + 5).to(dtype);
      auto with_gradient = [&](const std::string& what, auto op) {
        // The gradient is divided by a deviation of about 2; of a single element it is not.
        if (n == 1) return;
        expect_same(what, x, 64 * n, [&](const Tensor& t) {
          const Tensor leaf = t.detach().requires_grad_();
          const Tensor y = op(leaf);
          (y * t).sum().backward();
          return cat({y.detach(), leaf.grad()}, 0);
        });
      };
      with_gradient("layer_norm", [n](const Tensor& t) { return layer_norm(t, {n}); });
      with_gradient("rms_norm", [n](const Tensor& t) { return rms_norm(t, {n}); });
      with_gradient("group_norm", [](const Tensor& t) { return group_norm(t, 2); });
    }
  }
}

// A mean that is not rounded: its error would be divided by a deviation of 0.
TEST_F(GpuLengths, NormsOfAConstantAreZero) {
  for (std::int64_t n : lengths) {
    const Tensor x = full({2, 4, n}, 1'000'001).to(Device::cuda());
    for (const Tensor& y : {layer_norm(x, {n}), group_norm(x, 2)})
      EXPECT_TRUE(test::all_close(y.cpu(), zeros({2, 4, n}), 0)) << n;
  }
}

// The sums over rows are divided into shares of at least 16 rows.
TEST_F(GpuLengths, GradientsOfScalesAndShiftsOfLines) {
  for (DType dtype : dtypes) {
    for (std::int64_t rows : {1, 31, 32, 300}) {
      for (std::int64_t n : {1, 10, 33, 513}) {
        const Tensor x = (randn({rows, n}) * 2 + 5).to(dtype), dy = randn({rows, n}).to(dtype);
        const Tensor gamma = randn({n}).to(dtype), beta = randn({n}).to(dtype);
        auto gradients = [&](const std::string& what, auto op) {
          expect_same(what, x, 16 * rows, [&](const Tensor& t) {
            const Tensor scale = gamma.to(t.device()).detach().requires_grad_();
            const Tensor shift = beta.to(t.device()).detach().requires_grad_();
            op(t, scale, shift).backward(dy.to(t.device()));
            return shift.grad().defined() ? cat({scale.grad(), shift.grad()}, 0) : scale.grad();
          });
        };
        gradients("layer_norm", [n](const Tensor& t, const Tensor& scale, const Tensor& shift) {
          return layer_norm(t, {n}, scale, shift);
        });
        gradients("rms_norm", [n](const Tensor& t, const Tensor& scale, const Tensor&) {
          return rms_norm(t, {n}, scale);
        });
      }
    }
  }
}

TEST_F(GpuLengths, GradientsOfScalesAndShiftsOfGroups) {
  for (std::int64_t plane : {16, 17, 33, 64, 300, 1032}) {
    for (std::int64_t images : {1, 3}) {
      const Tensor x = randn({images, 6, plane}) * 2 + 5, dy = randn(x.shape());
      const Tensor gamma = randn({6}), beta = randn({6});
      for (std::int64_t groups : {1, 2, 6}) {
        expect_same("group_norm", x, images * plane, [&](const Tensor& t) {
          const Tensor leaf = t.detach().requires_grad_();
          const Tensor scale = gamma.to(t.device()).detach().requires_grad_();
          const Tensor shift = beta.to(t.device()).detach().requires_grad_();
          const Tensor y = group_norm(leaf, groups, scale, shift);
          y.backward(dy.to(t.device()));
          return cat({y.detach().flatten(), leaf.grad().flatten(), scale.grad(), shift.grad()}, 0);
        });
      }
    }
  }
}

// Scatters sort the index of a long line, so that more than one thread works on it.
TEST_F(GpuLengths, OpsThatSortLines) {
  std::vector<std::int64_t> all(std::begin(lengths), std::end(lengths));
  all.push_back(70000);
  for (std::int64_t n : all) {
    const Tensor x = randn({2, n}), numbers = randint(0, 40, {n});
    expect_same("nonzero", x, 1, [](const Tensor& t) { return nonzero(t > 0); });
    const Tensor to = expand(remainder(arange(n) * 7919, n), {2, n});
    expect_same("scatter_add", x, 1, [&to](const Tensor& t) {
      return scatter_add(zeros_like(t), 1, to.to(t.device()), t);
    });
    expect_same("scatter into a part", x, 1, [&to, n](const Tensor& t) {
      const Tensor wide = zeros({3, n + 1}, t.options());
      return scatter(wide, 1, to.to(t.device()), t);
    });
    const Tensor x16 = x.to(bf16), few = expand(remainder(arange(n), 5), {2, n});
    expect_same("scatter_add of bf16", x16, n, [&few](const Tensor& t) {
      return scatter_add(zeros({2, 5}, t.options()), 1, few.to(t.device()), t);
    });
    expect_same("median", x, 1, [](const Tensor& t) { return median(t, 1).values; });
    expect_same("kthvalue", x, 1,
                [n](const Tensor& t) { return kthvalue(t, (n + 2) / 3, 1).values; });
    expect_same("topk", x, 1, [n](const Tensor& t) { return topk(t, (n + 1) / 2, 1).values; });
    expect_same("quantile", x, 1, [](const Tensor& t) { return quantile(t, 0.3, {.dim = 1}); });
    expect_same("unique", numbers, 1, [](const Tensor& t) { return unique(t).values; });
    expect_same("bincount", numbers, 1, [](const Tensor& t) { return bincount(t); });
    expect_same("histc", x, 1,
                [](const Tensor& t) { return histc(t, {.bins = 7, .min = -2, .max = 2}); });
    expect_same("searchsorted", x, 1,
                [](const Tensor& t) { return searchsorted(sort(t, 1).values, t); });
  }
}

TEST_F(GpuLengths, NormaliseBatches) {
  // Channels: one column, part of a tile of 32, more than one tile; rows down to fewer than a
  // block.
  for (DType dtype : {f32, bf16}) {
    for (std::int64_t channels : {1, 3, 8, 24, 264, 300}) {
      for (std::int64_t side : {1, 4, 5, 16}) {
        for (MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
          const Tensor x =
              (randn({3, channels, side, side}) * 2 + 5).to(dtype).contiguous(format).detach();
          // The sums have 3 side^2 terms, and the gradient is divided by a deviation of about 2.
          expect_same("batch_norm", x, 64 * 3 * side * side, [&](const Tensor& t) {
            const TensorOptions f{.dtype = f32, .device = t.device()};
            const Tensor leaf = t.detach().requires_grad_();
            const Tensor y = batch_norm(leaf, ones({channels}, f), zeros({channels}, f), {}, {},
                                        {.residual = t * 0.5, .relu = true});
            (y * t).sum().backward();
            return cat({y.detach(), leaf.grad()}, 0);
          });
        }
      }
    }
  }
}

TEST_F(GpuLengths, Pool) {
  for (DType dtype : {f32, bf16, f16, f64}) {
    for (std::int64_t channels : {1, 6, 8, 64}) {
      for (MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        const Tensor x = randn({2, channels, 13, 9}).to(dtype).contiguous(format);
        auto with_gradient = [](auto op) {
          return [op](const Tensor& t) {
            const Tensor leaf = t.detach().requires_grad_();
            const Tensor y = op(leaf);
            y.backward(y.detach());  // has y's layout
            return cat({y.detach().flatten(), leaf.grad().flatten()}, 0);
          };
        };
        expect_same("max_pool2d", x, 9, with_gradient([](const Tensor& t) {
                      return max_pool2d(t, 3, {.stride = 2, .padding = 1});
                    }));
        expect_same("avg_pool2d", x, 9, with_gradient([](const Tensor& t) {
                      return avg_pool2d(t, 3, {.stride = 2, .padding = 1});
                    }));
        expect_same("adaptive_avg_pool2d", x, 200,
                    with_gradient([](const Tensor& t) { return adaptive_avg_pool2d(t, 4); }));
      }
    }
  }
}

TEST_F(GpuLengths, MovesBetweenAnyOrders) {
  for (DType dtype : {f64, f32, bf16, u8}) {
    for (std::int64_t n : {1, 7, 8, 31, 32, 33, 65, 300}) {
      const Tensor x = arange(n * 3 * 40).reshape({n, 3, 40}).to(dtype);
      expect_same("transpose", x, 1,
                  [](const Tensor& t) { return t.transpose(0, 2).contiguous(); });
      expect_same("permute", x, 1, [](const Tensor& t) {
        return t.permute({1, 0, 2}).contiguous();
      });
      expect_same("a part", x, 1, [](const Tensor& t) { return t.narrow(2, 3, 33).contiguous(); });
      expect_same("a wide part", x, 1,
                  [](const Tensor& t) { return t.narrow(2, 8, 32).contiguous(); });
    }
  }
}

}  // namespace
}  // namespace rondo::test
