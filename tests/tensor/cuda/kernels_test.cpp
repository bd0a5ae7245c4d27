// rondo's own CUDA kernels against the CPU's, on a GPU if there is one, else on the host
// (support/simulated_gpu.h). The op table covers the differentiable ones; this file covers the
// others.

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/host_cublaslt.h"
#include "support/host_cudart.h"
#include "support/host_cudnn.h"
#include "support/layouts.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/cuda.h"
#include "tensor/cuda/stream.h"

namespace rondo::test {
namespace {

constexpr DType all_dtypes[] = {f64, f32, bf16, f16, i64, i32, u8, i8, boolean};

class CudaKernels : public ::testing::Test {
 protected:
  CudaKernels() {
    if (cuda::device_count() == 0) simulated_.emplace();
  }
  const Device gpu = Device::cuda();

  std::optional<SimulatedGpus> simulated_;
};

Tensor on_cpu(const Tensor& x) { return x.to(Device::cpu()); }

TEST_F(CudaKernels, CopiesBetweenAllDtypesAndLayouts) {
  for (DType from : all_dtypes) {
    Tensor x = converted(randn({3, 5, 2, 7}) * 3, from);
    for (DType to : all_dtypes) {
      for (Layout layout : all_layouts) {
        Tensor here = relaid(layout, x, to);
        Tensor there = relaid(layout, x, from, gpu);
        Tensor moved = empty_in(layout, x.shape(), to, gpu);
        backend(gpu).copy(there, moved);
        Tensor back = empty_in(Layout::permuted, x.shape(), to);
        backend(gpu).copy(moved, back);
        EXPECT_TRUE(all_close(converted(back, f64), converted(here, f64), 0)) << from << ' ' << to;
      }
    }
  }
}

TEST_F(CudaKernels, FillsAnyLengthOfAnyDtype) {
  for (DType dtype : all_dtypes) {
    for (std::int64_t n : {1, 3, 16, 17, 1000}) {
      Tensor y = zeros({n + 2}, {.dtype = dtype, .device = gpu});
      backend(gpu).fill(y.narrow(0, 1, n), 1);  // not aligned
      backend(gpu).fill(y.narrow(0, 0, 1), 1);
      EXPECT_EQ(on_cpu(y).to(f64).sum().item<double>(), static_cast<double>(n + 1));
    }
  }
}

TEST_F(CudaKernels, RandomNumbersAreThoseOfTheCpu) {
  const Philox stream{.seed = 7, .stream = 3};
  for (DType dtype : {f64, f32, bf16, f16}) {
    for (Layout layout : all_layouts) {
      Tensor here = empty_in(layout, {3, 4, 5, 7}, dtype);
      Tensor there = empty_in(layout, {3, 4, 5, 7}, dtype, gpu);
      backend(here).uniform(here, stream, -2, 3);
      backend(there).uniform(there, stream, -2, 3);
      EXPECT_TRUE(all_close(on_cpu(there), here, 0)) << dtype;
      backend(here).normal(here, stream, 1, 2);
      backend(there).normal(there, stream, 1, 2);
      EXPECT_TRUE(all_close(on_cpu(there), here, tolerance(dtype, 1, 8))) << dtype;
    }
  }
  for (DType dtype : {i64, i32, u8}) {
    Tensor here = empty({1001}, {.dtype = dtype}),
           there = empty({1001}, {.dtype = dtype, .device = gpu});
    backend(here).randint(here, stream, 3, 200);
    backend(there).randint(there, stream, 3, 200);
    EXPECT_TRUE(all_close(on_cpu(there).to(f64), here.to(f64), 0)) << dtype;
  }
  manual_seed(5);
  Tensor here = rand({100});
  manual_seed(5);
  EXPECT_TRUE(all_close(on_cpu(rand({100}, {.device = gpu})), here, 0));
}

TEST_F(CudaKernels, ReductionsOfIntegersAndLongOnes) {
  Tensor x = randint(-5, 6, {7, 300, 9});
  for (Dims dims : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{0, 1, 2}}) {
    EXPECT_TRUE(all_close(on_cpu(x.to(gpu).sum(dims)).to(f64), x.sum(dims).to(f64), 0));
  }
  EXPECT_EQ(on_cpu(all(gt(x.to(gpu), -6))).item<bool>(), true);
  EXPECT_EQ(on_cpu(any(gt(x.to(gpu), 5))).item<bool>(), false);
  EXPECT_EQ(on_cpu(argmax(x.to(gpu), 1)).to_vector<std::int64_t>(),
            argmax(x, 1).to_vector<std::int64_t>());
  // Many rows, few columns: the column sums are split and then joined.
  Tensor tall = randn({20000, 3});
  EXPECT_TRUE(all_close(on_cpu(tall.to(gpu).sum({0})), tall.sum({0}), tolerance(f32, 20000, 150)));
  Tensor nan = tensor<float>({1, NAN, 3, NAN});
  EXPECT_EQ(on_cpu(argmax(nan.to(gpu))).item<std::int64_t>(), 1);
  EXPECT_TRUE(std::isnan(on_cpu(nan.to(gpu).max()).item()));
  EXPECT_EQ(on_cpu(zeros({0, 3}, {.device = gpu}).sum({0})).to_vector(),
            (std::vector<float>{0, 0, 0}));
}

/// Repeated indices, in any order, along each dimension: bit-identical to the CPU's sums.
TEST_F(CudaKernels, IndexAddAndScatterAddSumAsTheCpuDoes) {
  manual_seed(5);
  const Tensor start = randn({6, 5, 7}) * 4;
  for (const DType dtype : all_dtypes)
    for (std::int64_t dim = 0; dim < 3; ++dim)
      for (const std::int64_t n : {0, 1, 40}) {
        Dims sizes = start.shape();
        sizes[dim] = n;
        const Tensor y = converted(start, dtype), x = converted(randn(sizes) * 4, dtype),
                     index = randint(0, start.size(dim), {n}),
                     each = randint(0, start.size(dim), sizes);
        for (Layout layout : all_layouts) {
          const Tensor here = y.clone(), there = relaid(layout, y, dtype, gpu),
                       terms = relaid(layout, x, dtype, gpu);
          backend(here).index_scatter(ScatterOp::add, here, dim, index, x);
          backend(gpu).index_scatter(ScatterOp::add, there, dim, index.to(gpu), terms);
          EXPECT_TRUE(all_close(converted(on_cpu(there), f64), converted(here, f64), 0))
              << dtype << " along " << dim << ", " << n;
          backend(here).scatter(ScatterOp::add, here, dim, each, x);
          backend(gpu).scatter(ScatterOp::add, there, dim, each.to(gpu), terms);
          EXPECT_TRUE(all_close(converted(on_cpu(there), f64), converted(here, f64), 0))
              << dtype << " scattered along " << dim << ", " << n;
        }
      }
}

TEST_F(CudaKernels, AnIndexOutOfRangeIsToldWhenTheHostWaits) {
  Tensor x = arange(0, 6).to(f32).reshape({3, 2}).to(gpu);
  auto index = [&](std::vector<std::int64_t> values) {
    return tensor<std::int64_t>(values).to(gpu);
  };
  Tensor y = index_select(x, 0, index({0, 3}));
  EXPECT_ERROR(on_cpu(y), ShapeError,
               "index_select: index 3 is out of range for dimension 0 of size 3");
  EXPECT_EQ(on_cpu(index_select(x, 0, index({2, 0}))).to_vector(),
            (std::vector<float>{4, 5, 0, 1}));
  y = gather(x, 1, index({-1, 0, 0}).reshape({3, 1}));
  EXPECT_ERROR(on_cpu(y), ShapeError, "gather: index -1");
  y = scatter_add(x, 0, index({5, 0}).reshape({1, 2}), ones({1, 2}, {.device = gpu}));
  EXPECT_ERROR(on_cpu(y), ShapeError, "scatter_add: index 5");
  EXPECT_NO_THROW(on_cpu(x));  // reported once
}

TEST_F(CudaKernels, OptimizersStepAsOnTheCpu) {
  for (DType dtype : {f32, f64, bf16}) {
    for (int kind = 0; kind < 4; ++kind) {
      auto trained = [&](Device device) {
        manual_seed(1);
        // The kinds begin at 0 … 3: most weights are not aligned for accesses of 16 bytes.
        Tensor p = narrow(randn({260}).to(dtype).to(device), 0, kind, 257).requires_grad_();
        std::unique_ptr<optim::Optimizer> optimizer;
        if (kind == 0)
          optimizer = std::make_unique<optim::SGD>(
              Tensors{p}, optim::SgdOptions{.lr = 0.1, .weight_decay = 0.01});
        if (kind == 1)
          optimizer = std::make_unique<optim::SGD>(
              Tensors{p}, optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
        if (kind == 2)
          optimizer = std::make_unique<optim::Adam>(
              Tensors{p}, optim::AdamOptions{.lr = 0.1, .weight_decay = 0.01, .amsgrad = true});
        if (kind == 3)
          optimizer = std::make_unique<optim::AdamW>(Tensors{p}, optim::AdamWOptions{.lr = 0.1});
        for (int step = 0; step < 5; ++step) {
          p.set_grad(randn({257}).to(dtype).to(device));
          optimizer->step();
        }
        return on_cpu(p.detach());
      };
      EXPECT_TRUE(all_close(trained(gpu), trained(Device::cpu()), tolerance(dtype, 5, 4)))
          << dtype << kind;
    }
  }
}

// More tensors than one kernel takes, of several sizes and dtypes. Some get their first gradient
// late.
TEST_F(CudaKernels, OptimizersStepOverManyParametersAtOnce) {
  for (int kind = 0; kind < 2; ++kind) {
    auto trained = [&](Device device) {
      Generator generator(5);
      auto random = [&](std::int64_t k) {
        const DType dtype = k % 5 == 3 ? f64 : k % 5 == 4 ? bf16 : f32;
        return randn({k % 4 == 0 ? 1 : 3 * k}, {}, generator).to(dtype).to(device);
      };
      Tensors params;
      for (std::int64_t k = 0; k < 90; ++k) params.push_back(random(k).requires_grad_());
      std::unique_ptr<optim::Optimizer> optimizer;
      if (kind == 0)
        optimizer = std::make_unique<optim::SGD>(
            params, optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
      else
        optimizer = std::make_unique<optim::Adam>(params, optim::AdamOptions{.lr = 0.1});
      for (int step = 0; step < 3; ++step) {
        for (std::int64_t k = 0; k < 90; ++k) {
          const Tensor gradient = random(k);
          if (step > 0 || k % 3 != 0) params[static_cast<std::size_t>(k)].set_grad(gradient);
        }
        optimizer->step();
      }
      Tensors moved;
      for (const Tensor& p : params) moved.push_back(on_cpu(p.detach()));
      return moved;
    };
    const Tensors there = trained(gpu), here = trained(Device::cpu());
    for (std::size_t k = 0; k < here.size(); ++k)
      EXPECT_TRUE(all_close(there[k], here[k], tolerance(here[k].dtype(), 3, 4)))
          << kind << ' ' << k << ' ' << here[k].dtype();
  }
}

TEST_F(CudaKernels, SortsAsTheCpuDoes) {
  Tensor special = tensor<float>({0, -0.f, NAN, INFINITY, -INFINITY, -1, 3, -0.f, 0, -NAN, 3, -1});
  for (DType dtype : {f32, f64, f16, bf16, i64, i32, u8, boolean}) {
    const bool is_float = dtype == f32 || dtype == f64 || dtype == bf16 || dtype == f16;
    for (Layout layout : all_layouts) {
      for (bool largest : {false, true}) {
        Tensor x = is_float ? special.to(dtype).reshape({2, 3, 2})
                            : converted(randint(0, 9, {4, 5, 3}), dtype);
        Tensor there = relaid(layout, x, dtype, gpu);
        for (std::int64_t dim : {0, 1, 2}) {
          auto here_sorted = sort(x, dim, largest), there_sorted = sort(there, dim, largest);
          EXPECT_EQ(on_cpu(there_sorted.indices).to_vector<std::int64_t>(),
                    here_sorted.indices.to_vector<std::int64_t>());
          auto here_top = topk(x, 2, dim, largest), there_top = topk(there, 2, dim, largest);
          EXPECT_EQ(on_cpu(there_top.indices).to_vector<std::int64_t>(),
                    here_top.indices.to_vector<std::int64_t>());
          auto bits = [](const Tensor& v) { return v.to(f64); };
          EXPECT_TRUE(all_close(bits(on_cpu(there_top.values)), bits(here_top.values), 0)) << dtype;
        }
      }
    }
  }
}

TEST_F(CudaKernels, MatrixProductsOfAllLayouts) {
  for (DType dtype : {f32, f64, bf16, f16, i64, i32}) {
    const bool is_float = dtype == f32 || dtype == f64 || dtype == bf16 || dtype == f16;
    for (Layout left : all_layouts) {
      for (Layout right : all_layouts) {
        Tensor a = converted(randn({3, 4, 6}) * 4, dtype),
               c = converted(randn({3, 6, 5}) * 4, dtype);
        Tensor bias = converted(randn({5}) * 4, dtype);
        Tensor here = empty({3, 4, 5}, {.dtype = dtype});
        backend(here).matmul(a, c, bias, here);
        Tensor there = empty_in(left, {3, 4, 5}, dtype, gpu);
        backend(gpu).matmul(relaid(left, a, dtype, gpu), relaid(right, c, dtype, gpu),
                            relaid(right, bias, dtype, gpu), there);
        EXPECT_TRUE(all_close(converted(on_cpu(there), f64), converted(here, f64),
                              is_float ? tolerance(dtype, 6, 60) : 0))
            << dtype;
      }
    }
  }
  // One matrix for the whole batch, an empty sum, a row and a column.
  Tensor a = randn({4, 2, 3}), c = randn({1, 3, 5});
  Tensor there = bmm(a.to(gpu), c.to(gpu).expand({4, 3, 5}));
  EXPECT_TRUE(all_close(on_cpu(there), bmm(a, c.expand({4, 3, 5})), tolerance(f32, 3, 10)));
  EXPECT_EQ(
      on_cpu(matmul(zeros({2, 0}, {.device = gpu}), zeros({0, 3}, {.device = gpu}))).sum().item(),
      0);
  Tensor row = randn({1, 7}), column = randn({7, 1});
  EXPECT_TRUE(all_close(on_cpu(matmul(row.to(gpu), column.to(gpu))), matmul(row, column),
                        tolerance(f32, 7, 10)));
  EXPECT_TRUE(all_close(on_cpu(matmul(column.to(gpu), row.to(gpu))), matmul(column, row),
                        tolerance(f32, 1, 10)));
}

TEST_F(CudaKernels, ProductsWithAnActivationAreTheirParts) {
  for (DType dtype : {f32, f64, bf16, f16}) {
    for (std::int64_t columns : {8, 7, 11, 13}) {  // the double has no fused kernel for odd numbers
      const Tensor x = converted(randn({5, 16}), dtype), w = converted(randn({columns, 16}), dtype);
      const Tensor b = converted(randn({columns}), dtype);
      for (const Tensor& bias : {b, Tensor()}) {
        auto on_gpu = [&](Activation activation) {
          return converted(on_cpu(linear(x.to(gpu), w.to(gpu), bias.defined() ? bias.to(gpu) : bias,
                                         activation)),
                           f64);
        };
        const Tensor plain = linear(converted(x, f64), converted(w, f64),
                                    bias.defined() ? converted(bias, f64) : bias);
        const double bound = tolerance(dtype, 16, 30);
        EXPECT_TRUE(all_close(on_gpu(Activation::none), plain, bound)) << dtype;
        EXPECT_TRUE(all_close(on_gpu(Activation::relu), relu(plain), bound)) << dtype;
        EXPECT_TRUE(
            all_close(on_gpu(Activation::gelu_tanh), gelu(plain, GeluApproximation::tanh), bound))
            << dtype;
      }
    }
  }
}

// In 16-bit types one product gives the gradients of weight and bias; the simulated cuBLASLt has no
// such kernel for 7, 11 and 13 inputs.
TEST_F(CudaKernels, GradientsOfALinearLayer) {
  const auto check = [&](DType dtype, const Dims& x, std::int64_t outputs, bool is_fused) {
    Dims y = x;
    y[y.size() - 1] = outputs;
    Tensors from;
    for (const Dims& shape : {x, Dims{outputs, x.back()}, Dims{outputs}, y})
      from.push_back(converted(randn(shape), dtype));
    const auto gradients = [&](DType as, Device device) {
      Tensors leaves;
      for (std::size_t i = 0; i < 3; ++i)
        leaves.push_back(converted(from[i], as).to(device).requires_grad_());
      const Tensor y = linear(leaves[0], leaves[1], leaves[2]);
      return grad({y}, leaves, {.grad_outputs = {converted(from[3], as).to(device)}});
    };
    const int before = products_with_sums();
    const Tensors there = gradients(dtype, gpu), here = gradients(f64, Device::cpu());
    if (simulated_) {
      EXPECT_EQ(products_with_sums() - before, is_fused) << dtype << ' ' << x;
    }
    for (std::size_t i = 0; i < there.size(); ++i)
      EXPECT_TRUE(all_close(converted(on_cpu(there[i]), f64), here[i], tolerance(dtype, 8, 30)))
          << dtype << ' ' << x << ' ' << i;
  };
  for (DType dtype : {f32, bf16, f16}) {
    for (std::int64_t inputs : {16, 7, 11, 13})
      check(dtype, {6, inputs}, 5, dtype != f32 && inputs == 16);
    check(dtype, {2, 3, 8}, 5, dtype != f32);
    check(dtype, {1, 8}, 5, dtype != f32);
    check(dtype, {6, 8}, 1, dtype != f32);
    check(dtype, {0, 8}, 5, false);
  }
}

TEST_F(CudaKernels, GradientsOfALinearLayerThatAreWantedInPart) {
  const Tensor x = converted(randn({6, 8}), bf16).to(gpu),
               w = converted(randn({5, 8}), bf16).to(gpu), b = converted(randn({5}), bf16).to(gpu);
  const Tensor rows = converted(on_cpu(x), f64).sum({0}).expand({5, 8});
  for (const bool of_weight : {false, true})
    for (const bool of_bias : {false, true})
      for (const bool twice : {false, true}) {
        const Tensor weight = w.clone().requires_grad_(of_weight),
                     bias = b.clone().requires_grad_(of_bias);
        if (!of_weight && !of_bias) continue;
        const int before = products_with_sums();
        // The gradient of sum is one element that stands for all.
        linear(x.clone().requires_grad_(), weight, bias).sum().backward({}, twice, twice);
        if (simulated_) {
          EXPECT_EQ(products_with_sums() - before, of_weight && of_bias && !twice);
        }
        if (of_weight) {
          EXPECT_TRUE(all_close(converted(on_cpu(weight.grad().detach()), f64), rows,
                                tolerance(bf16, 6, 30)));
        }
        if (of_bias) {
          EXPECT_EQ(on_cpu(bias.grad().detach()).to(f32).to_vector(), full({5}, 6.0).to_vector());
        }
        weight.set_grad({});
        bias.set_grad({});
      }
}

// cuBLASLt reads a bias 16 bytes at a time.
TEST_F(CudaKernels, ABiasMayLieAnywhere) {
  const Tensor x = randn({5, 16}), w = randn({8, 16}), all = randn({9});
  EXPECT_TRUE(all_close(on_cpu(linear(x.to(gpu), w.to(gpu), all.to(gpu).narrow(0, 1, 8))),
                        linear(x, w, all.narrow(0, 1, 8)), tolerance(f32, 16, 30)));
}

TEST_F(CudaKernels, CrossEntropyNamesATargetThatIsNoClass) {
  const Tensor logits = randn({3, 4}).to(gpu);
  EXPECT_ERROR(cross_entropy(logits, tensor<std::int64_t>({0, 4, 1}).to(gpu)).item(), ShapeError,
               "cross_entropy: index 4 is out of range for dimension 1 of size 4");
  EXPECT_GT(cross_entropy(logits, tensor<std::int64_t>({0, -100, 1}).to(gpu)).item(), 0);
  // Backward reads and writes nothing next to the line either.
  const Tensor x = randn({3, 4}).to(gpu).requires_grad_();
  cross_entropy(x, tensor<std::int64_t>({0, 1 << 20, 1}).to(gpu)).backward();
  EXPECT_ERROR(x.grad().to(Device::cpu()), ShapeError,
               "cross_entropy: index 1048576 is out of range");
  EXPECT_ERROR(cross_entropy(logits, tensor<std::int64_t>({0, 1, 1})), DeviceError,
               "cross_entropy: tensors are on different devices, cuda:0 and cpu");
  EXPECT_ERROR(cross_entropy(randn({3, 4}), tensor<std::int64_t>({0, 1, 1}).to(gpu)), DeviceError,
               "cross_entropy: tensors are on different devices, cpu and cuda:0");
}

TEST_F(CudaKernels, ConvolutionsOfF32AreExactUnlessTf32IsAllowed) {
  Tensor x = randn({2, 3, 8, 8}), w = randn({4, 3, 3, 3}), b = randn({4});
  auto difference = [&] {
    Tensor y = on_cpu(conv2d(x.to(gpu), w.to(gpu), b.to(gpu), {.padding = 1}));
    return (y - conv2d(x, w, b, {.padding = 1})).abs().max().item<double>();
  };
  EXPECT_LT(difference(), tolerance(f32, 27, 20));
  cuda::allow_tf32(cuda::Tf32::convolutions);
  EXPECT_GT(difference(), 1e-4);
  // Each factor has an error below 2^-10, so each product has one below 2^-9.
  EXPECT_LT(difference(),
            0x1p-9 * conv2d(x.abs(), w.abs(), {}, {.padding = 1}).max().item<double>());
  cuda::allow_tf32(cuda::Tf32::none);
}

TEST_F(CudaKernels, ConvolutionsTryTheEnginesWhenTheyAreToBeMeasured) {
  Tensor x = randn({2, 3, 8, 8}), w = randn({4, 3, 3, 3});
  const Tensor want = conv2d(x, w, {}, {.stride = 2, .padding = 1});
  for (bool deterministic : {false, true}) {
    cuda::measure_plans(true);
    cuda::set_deterministic(deterministic);
    const auto before = cuda::synchronizations();
    auto run = [&] { return conv2d(x.to(gpu), w.to(gpu), {}, {.stride = 2, .padding = 1}); };
    Tensor there = run();
    EXPECT_GT(cuda::synchronizations(), before);
    const auto after = cuda::synchronizations();
    run();  // the plan is kept
    EXPECT_EQ(cuda::synchronizations(), after);
    cuda::measure_plans(false);
    cuda::set_deterministic(false);
    EXPECT_TRUE(all_close(on_cpu(there), want, tolerance(f32, 27, 20)));
  }
}

TEST(CudaMemory, AConvolutionWhoseWorkspaceDoesNotFitTakesAnotherEngine) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "for GPUs whose memory can be set";
  const SimulatedGpus gpus(SimulatedGpus::Memory::caching);
  const Device gpu = Device::cuda(2);
  cuda::empty_cache(2);
  set_memory_of_gpus(std::size_t{64} << 20);
  set_workspace_of_first_engine(std::int64_t{100} << 20);
  const Tensor x = converted(randn({2, 3, 9, 9}), bf16), w = converted(randn({4, 3, 3, 3}), bf16);
  const Tensor want = conv2d(x, w);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(all_close(on_cpu(conv2d(x.to(gpu), w.to(gpu))), want, tolerance(bf16, 27, 20)));
    set_memory_of_gpus(std::size_t{1} << 40);  // the engine that succeeded is kept
  }
  EXPECT_LT(cuda::memory_stats(2).peak, std::size_t{100} << 20);
  set_workspace_of_first_engine(100);
}

TEST_F(CudaKernels, DevicesDoNotMix) {
  Tensor here = ones({3}), there = ones({3}, {.device = gpu});
  EXPECT_ERROR(here + there, DeviceError, "add: tensors are on different devices, cpu and cuda:0");
  EXPECT_ERROR(index_select(there, 0, tensor<std::int64_t>({0})), DeviceError,
               "index_select: tensors are on different devices, cuda:0 and cpu");
}

}  // namespace
}  // namespace rondo::test
