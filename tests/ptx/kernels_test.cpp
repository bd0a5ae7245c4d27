// Kernels that no other test reaches as compiled: each shape of a kernel (threads, warps, blocks,
// partial results), for each dtype and operation.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "dist/collectives/cuda/combine.h"
#include "dist/collectives/reduce.h"
#include "support/layouts.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/backend.h"

namespace rondo::test {
namespace {

const Device gpu = Device::cuda();

class PtxKernels : public ::testing::Test {
 protected:
  PtxKernels() { manual_seed(1); }
  /// f of x on the GPU equals f of the same x on the CPU, up to sums of n terms in x's dtype.
  static void expect_same(const std::string& what, const Tensor& x, std::int64_t n,
                          const std::function<Tensor(const Tensor&)>& f) {
    const Tensor want = f(x), got = f(x.to(gpu)).to(Device::cpu());
    const DType sums = x.dtype() == f64 ? f64 : f32;
    EXPECT_TRUE(all_close(got.to(f64), want.to(f64), tolerance(sums, n, std::sqrt(double(n))),
                          tolerance(x.dtype(), n)))
        << what << ' ' << x.shape() << ' ' << x.dtype();
  }
  static Tensor with_gradient(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
    const Tensor leaf = x.detach().requires_grad_();
    const Tensor y = f(leaf);
    y.backward(y.detach() * 0.25);
    return cat({y.detach().flatten(), leaf.grad().flatten()}, 0);
  }

 private:
  SimulatedGpus simulated_;
};

TEST_F(PtxKernels, FoldRowsAndColumnsOfAnyLength) {
  struct Case {
    Dims from, to;
  };
  const Case cases[] = {{{2, 10}, {2, 1}},       {{2, 300}, {2, 1}}, {{1, 40000}, {1, 1}},
                        {{10, 24}, {1, 24}},     {{300, 2}, {1, 2}}, {{8193, 1, 2}, {1, 1, 2}},
                        {{130, 8200}, {1, 8200}}};
  for (DType dtype : {f32, f64, i64}) {
    for (const Case& c : cases) {
      // Products neither overflow nor vanish.
      const Tensor x = dtype == i64 ? randint(-1, 2, c.from) : (rand(c.from) * 1e-3 + 1).to(dtype);
      const std::int64_t n = x.numel();
      for (ReductionOp op :
           {ReductionOp::sum, ReductionOp::prod, ReductionOp::max, ReductionOp::min,
            ReductionOp::all, ReductionOp::any, ReductionOp::sum_squares}) {
        const bool is_test = op == ReductionOp::all || op == ReductionOp::any;
        expect_same(std::string(name_of(op)), x, n * n, [&](const Tensor& t) {
          const Tensor y =
              Tensor::empty(c.to, {.dtype = is_test ? boolean : dtype, .device = t.device()});
          backend(t.device()).reduce(op, t, y);
          return y;
        });
      }
    }
  }
}

TEST_F(PtxKernels, ExtremesSoftmaxAndSumsOfLines) {
  for (DType dtype : {f32, f64, bf16, f16}) {
    for (const Dims& shape :
         {Dims{3, 24}, Dims{3, 304}, Dims{2, 1200}, Dims{2, 1201}, Dims{2, 3, 4100}}) {
      const Tensor x = randn(shape).to(dtype);
      for (bool log : {false, true})
        expect_same("softmax", x, 64 * shape[1], [&](const Tensor& t) {
          return with_gradient(
              t, [&](const Tensor& leaf) { return log ? log_softmax(leaf, 1) : softmax(leaf, 1); });
        });
    }
  }
  for (DType dtype : {f32, f64, i64}) {
    for (const Dims& shape : {Dims{3, 24}, Dims{3, 304}, Dims{2, 3, 4100}}) {
      const Tensor x = dtype == i64 ? randint(-9, 9, shape) : randn(shape).to(dtype);
      expect_same("max", x, 1, [](const Tensor& t) { return max(t, 1).values; });
      expect_same("min", x, 1, [](const Tensor& t) { return min(t, 1).indices; });
      if (shape.size() == 2) {
        expect_same("cumsum", x, 64, [](const Tensor& t) { return cumsum(t, 1); });
        expect_same("cummax", x, 1, [](const Tensor& t) { return cummax(t, 1).indices; });
        expect_same("nonzero", x, 1, [](const Tensor& t) { return nonzero(t > 0); });
        if (dtype != i64)
          expect_same("cumprod", 1 + x * 0.01, 64, [](const Tensor& t) {
            return with_gradient(t, [](const Tensor& leaf) { return cumprod(leaf, 1); });
          });
      }
    }
  }
}

// Rows of eight and of other lengths, in one piece or one number each.
TEST_F(PtxKernels, BroadcastOperandsAreAddedAndCompared) {
  for (DType dtype : {f32, bf16, f16}) {
    const Tensor image = randn({2, 3, 4, 16}).to(dtype);
    const auto with = [&](const char* what, const Tensor& x, const Tensor& other) {
      expect_same(what, x, 1, [&](const Tensor& t) {
        const Tensor o = other.to(t.device());
        return cat({(t + o).flatten(), (o * t).flatten(), lt(t, o).to(t.dtype()).flatten(),
                    maximum(o, t).flatten()},
                   0);
      });
    };
    for (const Dims& shape : {Dims{16}, Dims{4, 16}, Dims{4, 1}, Dims{3, 1, 1}, Dims{2, 1, 1, 16},
                              Dims{1}, Dims{2, 3, 4, 16}})
      with("a part of its dimensions", image, randn(shape).to(dtype));
    with("rows of 12", image.narrow(3, 0, 12), randn({12}).to(dtype));
    with("rows that begin between octets", image.narrow(3, 4, 8), randn({8}).to(dtype));
    with("channels last", image.contiguous(MemoryFormat::channels_last),
         randn({3, 1, 1}).to(dtype));
    with("another dtype", image, randn({}, {.dtype = f32}));
  }
}

// Groups of a warp with several chunks, of 256 and of 1,024 threads; short floats; columns.
TEST_F(PtxKernels, GradientsOfProducts) {
  for (const DType dtype : {f32, bf16, f16})
    for (const Dims& shape : {Dims{3, 50}, Dims{2, 600}, Dims{1, 9000}, Dims{40, 6}}) {
      const std::int64_t dim = shape[0] > shape[1] ? 0 : 1;
      const Tensor x = (1 + randn(shape) * 1e-3).to(dtype);
      expect_same("cumprod", x, dtype == f32 ? shape[dim] : 8, [&](const Tensor& t) {
        return with_gradient(t, [&](const Tensor& leaf) { return cumprod(leaf, dim); });
      });
    }
}

TEST_F(PtxKernels, UniformNumbersAreThoseOfTheCpu) {
  const Philox random{.seed = 3, .stream = 5};
  for (DType dtype : {f32, f64, bf16, f16}) {
    for (std::int64_t n : {1, 7, 8, 9, 1000}) {
      expect_same("uniform", zeros({n}, {.dtype = dtype}), 1, [&](const Tensor& t) {
        const Tensor y = t.clone();
        backend(y).uniform(y, random, -1, 3);
        return y;
      });
    }
  }
}

TEST_F(PtxKernels, PointsAreRotated) {
  for (DType dtype : {f32, bf16, f16}) {
    for (std::int64_t width : {8, 16, 24}) {
      expect_same("rotary_embedding", randn({2, 3, 5, width}).to(dtype), 4, [](const Tensor& t) {
        return cat({rotary_embedding(t), rotary_embedding(t.transpose(1, 2)).transpose(1, 2)}, 0);
      });
    }
  }
}

TEST_F(PtxKernels, CrossEntropyOfAnyNumberOfClasses) {
  for (DType dtype : {f32, f64}) {
    for (const Dims& shape : {Dims{3, 24}, Dims{3, 304}, Dims{2, 10, 4100}}) {
      const Tensor x = randn(shape).to(dtype);
      const Tensor target = randint(0, 10, sum(x, {1}).shape());
      expect_same("cross_entropy", x, 64, [&](const Tensor& t) {
        return with_gradient(t, [&](const Tensor& leaf) {
          return cross_entropy(leaf, target.to(t.device()), {.reduction = Reduction::none});
        });
      });
    }
  }
}

TEST_F(PtxKernels, ElementwiseOpsOfPacks) {
  const Tensor a = rand({4099}) * 0.8 + 0.1, b = rand({4099}) * 0.8 + 0.1;
  const OpParams params{.alpha = 0.5, .beta = 0.75, .gamma = 3};
  auto unary = [&](UnaryOp op) {
    expect_same("unary " + std::string(name_of(op)), a, 64, [&](const Tensor& t) {
      const Tensor y = Tensor::empty(t.shape(), {.dtype = f32, .device = t.device()});
      backend(t.device()).unary(op, t, y, params);
      return y;
    });
  };
  auto binary = [&](BinaryOp op) {
    expect_same("binary " + std::string(name_of(op)), a, 64, [&](const Tensor& t) {
      const Tensor y = Tensor::empty(t.shape(), {.dtype = f32, .device = t.device()});
      backend(t.device()).binary(op, t, b.to(t.device()), y, params);
      return y;
    });
  };
#define RONDO_ROW(name, ...) unary(UnaryOp::name);
  RONDO_UNARY_OPS(RONDO_ROW)
#undef RONDO_ROW
#define RONDO_ROW(name, ...) binary(BinaryOp::name);
  RONDO_BINARY_OPS_OF_ALL(RONDO_ROW)
  RONDO_BINARY_OPS_OF_FLOATS(RONDO_ROW)
#undef RONDO_ROW
}

TEST_F(PtxKernels, BatchNormOfFewAndManyRows) {
  for (DType dtype : {f32, bf16, f16}) {
    for (const Dims& shape : {Dims{2, 16, 5, 5}, Dims{2, 3, 5, 5}, Dims{1, 1, 1024, 1040}}) {
      const Tensor x = randn(shape).to(dtype).contiguous(MemoryFormat::channels_last);
      const std::int64_t n = x.numel() / shape[1];
      for (bool training : {true, false}) {
        expect_same("batch_norm", x, n, [&](const Tensor& t) {
          const TensorOptions options{.dtype = f32, .device = t.device()};
          const Tensor gamma = ones({shape[1]}, options), beta = zeros({shape[1]}, options);
          const Tensor mean = zeros({shape[1]}, options), var = ones({shape[1]}, options);
          if (!training)
            return batch_norm(t, gamma, beta, mean, var, {.training = false, .relu = true});
          const Tensor leaf = t.detach().requires_grad_();
          batch_norm(leaf, gamma, beta, mean, var, {.relu = true}).backward(t * 0.25);
          return leaf.grad();
        });
      }
    }
  }
}

TEST_F(PtxKernels, PoolsOfPackedChannels) {
  for (DType dtype : {f32, bf16, f16, f64}) {
    for (std::int64_t channels : {6, 16}) {
      const Tensor x = randn({2, channels, 7, 9}).to(dtype).contiguous(MemoryFormat::channels_last);
      auto pooled = [&](const std::string& what, auto f) {
        expect_same(what, x, 64, [&](const Tensor& t) {
          const Tensor leaf = t.detach().requires_grad_();
          const Tensor y = f(leaf);
          y.backward(y.detach().contiguous(MemoryFormat::channels_last));
          return cat({y.detach().flatten(), leaf.grad().flatten()}, 0);
        });
      };
      expect_same("second gradient", x, 64, [](const Tensor& t) {
        const Tensor leaf = t.detach().requires_grad_();
        const TensorOptions options{.dtype = t.dtype(), .device = t.device()};
        const Tensor dy = ones({2, t.size(1), 3, 4}, options).requires_grad_();
        const Tensor y = max_pool2d(leaf, 3, {.stride = 2});
        const Tensors dx = grad({y}, {leaf}, {.grad_outputs = {dy}, .create_graph = true});
        return grad({dx[0]}, {dy}, {.grad_outputs = {t}})[0];
      });
      pooled("max", [](const Tensor& t) { return max_pool2d(t, 3, {.stride = 2, .padding = 1}); });
      pooled("average",
             [](const Tensor& t) { return avg_pool2d(t, 3, {.stride = 2, .padding = 1}); });
      pooled("adaptive", [](const Tensor& t) { return adaptive_avg_pool2d(t, 4); });
    }
  }
}

// A kernel that walked a whole plane, or all tokens, in one thread would be noted (launch.h).
TEST_F(PtxKernels, OnePlaneAndOneVocabularyKeepManyThreadsBusy) {
  const Tensor plane = randn({1, 1, 80, 80});
  for (const bool largest : {true, false}) {
    expect_same("a plane", plane, 4, [&](const Tensor& t) {
      return with_gradient(t, [&](const Tensor& leaf) {
        return largest ? max_pool2d(leaf, 2) : avg_pool2d(leaf, 2);
      });
    });
  }
  const Tensor tokens = randint(0, 1000, {600});
  expect_same("tokens", randn({600, 2}), 600, [&](const Tensor& t) {
    return index_add(zeros({1000, 2}, t.options()), 0, tokens.to(t.device()), t);
  });
}

TEST_F(PtxKernels, BytesAreMovedAndChosen) {
  for (DType dtype : {u8, boolean, i32, i64, f64}) {
    const Tensor x = randint(0, 2, {40, 48}).to(dtype), index = tensor<std::int64_t>({3, 0, 39});
    expect_same("transpose", x, 1, [](const Tensor& t) { return t.transpose(0, 1).contiguous(); });
    expect_same("where", x, 1,
                [](const Tensor& t) { return where(t.to(boolean), t, t.flip({1})); });
    expect_same("where of parts", x, 1, [](const Tensor& t) {
      return where(t.to(boolean).narrow(1, 1, 40), t.narrow(1, 0, 40),
                   t.flip({1}).narrow(1, 8, 40));
    });
    expect_same("index_select", x, 1,
                [&](const Tensor& t) { return index_select(t, 0, index.to(t.device())); });
  }
}

TEST_F(PtxKernels, UnscaleFindsInfinity) {
  for (DType dtype : {f32, f64, bf16, f16}) {
    const Tensor x = cat({randn({33}), tensor<float>({INFINITY})}, 0).to(dtype);
    expect_same("unscale", x, 1, [](const Tensor& t) {
      const TensorOptions options{.dtype = f32, .device = t.device()};
      const Tensor gradient = t.clone(), found = zeros({}, options);
      const Tensor gradients[] = {gradient.narrow(0, 0, 33)}, all[] = {gradient};
      backend(t.device()).unscale(gradients, full({}, 4, options), found);
      const Tensor none = found.clone();
      backend(t.device()).unscale(all, full({}, 4, options), found);
      return cat({gradient.narrow(0, 0, 33).to(f32), none.reshape({1}), found.reshape({1})}, 0);
    });
  }
}

TEST_F(PtxKernels, RanksValuesAreCombined) {
  using dist::ReduceOp;
  for (DType dtype : {f32, f64, bf16, f16, i32, i64, i8, u8, boolean}) {
    const Tensor a = randint(0, 2, {70}).to(dtype), b = randint(0, 2, {70}).to(dtype);
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                        ReduceOp::band, ReduceOp::bor}) {
      const bool bits = op == ReduceOp::band || op == ReduceOp::bor;
      const bool average = op == ReduceOp::avg;
      if (is_floating(dtype) ? bits : average) continue;
      const Tensor want = a.clone(), got = a.to(gpu);
      const Tensor there = b.to(gpu);
      if (average)
        dist::combine_and_divide(want.data_ptr(), b.data_ptr(), 70, dtype, 3);
      else
        dist::combine(want.data_ptr(), b.data_ptr(), 70, dtype, op);
      dist::combine_on_device(cuda::current_stream(0), got.data_ptr(), there.data_ptr(), 70, dtype,
                              op, average ? 3 : 1);
      EXPECT_TRUE(all_close(got.to(Device::cpu()).to(f64), want.to(f64), 0)) << op << ' ' << dtype;
    }
  }
}

}  // namespace
}  // namespace rondo::test
