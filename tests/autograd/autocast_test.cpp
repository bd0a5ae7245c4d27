#include "autograd/autocast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"
#ifdef RONDO_HAS_CUDA
#include "support/simulated_gpu.h"
#include "tensor/cuda.h"
#endif

namespace rondo {
namespace {

using test::identical;
using test::message_of;

using Operands = std::vector<Tensor>;
struct Case {
  std::vector<Dims> shapes;
  std::function<Tensor(const Operands&)> run;
};

const Dims matrix = {2, 3}, image = {2, 4, 4, 4};

Tensor indices(std::initializer_list<std::int64_t> values) { return tensor(values); }

Case unary(Tensor (*op)(const Tensor&)) {
  return {{matrix}, [op](const Operands& x) { return op(x[0]); }};
}
Case loss(Tensor (*op)(const Tensor&, const Tensor&, Reduction)) {
  return {{matrix, matrix}, [op](const Operands& x) { return op(x[0], x[1], Reduction::mean); }};
}
Case on_matrix(std::function<Tensor(const Tensor&)> op) {
  return {{matrix}, [op](const Operands& x) { return op(x[0]); }};
}
Case on_image(std::function<Tensor(const Tensor&)> op) {
  return {{image}, [op](const Operands& x) { return op(x[0]); }};
}
Case on_pair(std::function<Tensor(const Tensor&, const Tensor&)> op) {
  return {{matrix, matrix}, [op](const Operands& x) { return op(x[0], x[1]); }};
}

/// The cases by their names in tests/golden/make_autocast.py.
std::map<std::string, Case> all_cases() {
  const auto like = [](const Tensor& x, Tensor y) { return y.to(x.device()); };
  const auto target = [like](const Tensor& x) { return like(x, indices({0, 1})); };
  const auto ones4 = [like](const Tensor& x) { return like(x, ones({4})); };
  const auto zeros4 = [like](const Tensor& x) { return like(x, zeros({4})); };
  return {
      {"conv2d", {{image, {3, 4, 2, 2}}, [](auto& x) { return conv2d(x[0], x[1]); }}},
      {"conv1d", {{{2, 4, 4}, {3, 4, 2}}, [](auto& x) { return conv1d(x[0], x[1]); }}},
      {"conv_transpose1d",
       {{{2, 4, 4}, {4, 3, 2}}, [](auto& x) { return conv_transpose1d(x[0], x[1]); }}},
      {"conv3d", {{{2, 4, 4, 4, 4}, {3, 4, 2, 2, 2}}, [](auto& x) { return conv3d(x[0], x[1]); }}},
      {"conv_transpose3d",
       {{{2, 4, 4, 4, 4}, {4, 3, 2, 2, 2}}, [](auto& x) { return conv_transpose3d(x[0], x[1]); }}},
      {"conv_transpose2d",
       {{image, {4, 3, 2, 2}}, [](auto& x) { return conv_transpose2d(x[0], x[1]); }}},
      {"scaled_dot_product_attention",
       {{{2, 3, 4}, {2, 5, 4}, {2, 5, 4}},
        [](auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }}},
      {"linear", {{matrix, {4, 3}}, [](auto& x) { return linear(x[0], x[1]); }}},
      {"matmul", {{matrix, {3, 2}}, [](auto& x) { return matmul(x[0], x[1]); }}},
      {"bmm", {{{2, 2, 3}, {2, 3, 2}}, [](auto& x) { return bmm(x[0], x[1]); }}},
      {"prod", unary([](const Tensor& x) { return prod(x); })},
      {"nll_loss", on_matrix([=](auto& x) { return nll_loss(x, target(x)); })},
      {"cross_entropy", on_matrix([=](auto& x) { return cross_entropy(x, target(x)); })},
      {"mse_loss", loss(mse_loss)},
      {"l1_loss", loss(l1_loss)},
      {"smooth_l1_loss", on_pair([](auto& x, auto& y) { return smooth_l1_loss(x, y); })},
      {"bce_with_logits", loss(bce_with_logits)},
      {"kl_div", on_pair([](auto& x, auto& y) { return kl_div(x, y); })},
      {"huber_loss", on_pair([](auto& x, auto& y) { return huber_loss(x, y); })},
      {"poisson_nll_loss", on_pair([](auto& x, auto& y) { return poisson_nll_loss(x, y); })},
      {"hinge_embedding_loss",
       on_matrix([](auto& x) { return hinge_embedding_loss(x, ones_like(x.detach())); })},
      {"soft_margin_loss", loss(soft_margin_loss)},
      {"triplet_margin_loss",
       {{matrix, matrix, matrix}, [](auto& x) { return triplet_margin_loss(x[0], x[1], x[2]); }}},
      {"multi_margin_loss", on_matrix([=](auto& x) { return multi_margin_loss(x, target(x)); })},
      {"pow", on_matrix([](auto& x) { return pow(x, 2.0); })},
      {"pow_tensor", on_pair([](auto& x, auto& y) { return pow(x, y); })},
      {"softplus", unary(softplus)},
      {"softmax", on_matrix([](auto& x) { return softmax(x, 1); })},
      {"log_softmax", on_matrix([](auto& x) { return log_softmax(x, 1); })},
      {"layer_norm", on_matrix([=](auto& x) {
         return layer_norm(x, {3}, like(x, ones({3})), like(x, zeros({3})));
       })},
      {"group_norm", on_image([=](auto& x) { return group_norm(x, 2, ones4(x), zeros4(x)); })},
      {"batch_norm", on_image([=](auto& x) {
         return batch_norm(x, ones4(x), zeros4(x), zeros4(x), ones4(x), {.training = true});
       })},
      {"sum", on_matrix([](auto& x) { return sum(x); })},
      {"mean", on_matrix([](auto& x) { return mean(x); })},
      {"var", on_matrix([](auto& x) { return var(x); })},
      {"std", on_matrix([](auto& x) { return rondo::std(x); })},
      {"norm", on_matrix([](auto& x) { return norm(x); })},
      {"vector_norm", on_matrix([](auto& x) { return vector_norm(x, 3); })},
      {"logsumexp", on_matrix([](auto& x) { return logsumexp(x, {1}); })},
      {"cumsum", on_matrix([](auto& x) { return cumsum(x, 1); })},
      {"scatter_add", on_pair([=](auto& x, auto& y) {
         return scatter_add(x, 1, like(x, reshape(indices({0, 1, 2, 2, 1, 0}), {2, 3})), y);
       })},
      {"max_pool2d", on_image([](auto& x) { return max_pool2d(x, 2); })},
      {"avg_pool2d", on_image([](auto& x) { return avg_pool2d(x, 2); })},
      {"adaptive_avg_pool2d", on_image([](auto& x) { return adaptive_avg_pool2d(x, 1); })},
      {"upsample_nearest2d", on_image([](auto& x) { return upsample_nearest2d(x, 2); })},
      {"add", on_pair([](auto& x, auto& y) { return x + y; })},
      {"mul", on_pair([](auto& x, auto& y) { return x * y; })},
      {"div", on_pair([](auto& x, auto& y) { return x / y; })},
      {"atan2", on_pair([](auto& x, auto& y) { return atan2(x, y); })},
      {"leaky_relu", on_matrix([](auto& x) { return leaky_relu(x); })},
      {"gelu", on_matrix([](auto& x) { return gelu(x); })},
      {"acos", unary(acos)},
      {"asin", unary(asin)},
      {"asinh", unary(asinh)},
      {"atan", unary(atan)},
      {"atanh", unary(atanh)},
      {"cos", unary(cos)},
      {"cosh", unary(cosh)},
      {"erf", unary(erf)},
      {"erfc", unary(erfc)},
      {"erfinv", unary(erfinv)},
      {"lgamma", unary(lgamma)},
      {"digamma", unary(digamma)},
      {"exp", unary(exp)},
      {"exp2", unary(exp2)},
      {"expm1", unary(expm1)},
      {"log", unary(log)},
      {"log10", unary(log10)},
      {"log1p", unary(log1p)},
      {"log2", unary(log2)},
      {"reciprocal", unary(reciprocal)},
      {"relu", unary(relu)},
      {"rsqrt", unary(rsqrt)},
      {"sigmoid", unary(sigmoid)},
      {"silu", unary(silu)},
      {"elu", on_matrix([](auto& x) { return elu(x); })},
      {"mish", unary(mish)},
      {"logsigmoid", unary(logsigmoid)},
      {"hardswish", unary(hardswish)},
      {"rms_norm", on_matrix([](auto& x) { return rms_norm(x, {3}); })},
      {"instance_norm", on_image([](auto& x) { return instance_norm(x, {}, {}, {}, {}); })},
      {"sin", unary(sin)},
      {"sinh", unary(sinh)},
      {"sqrt", unary(sqrt)},
      {"square", unary(square)},
      {"tan", unary(tan)},
      {"tanh", unary(tanh)},
  };
}

/// The dtypes that ops return are PyTorch's, and each gradient has its leaf's dtype.
void expect_dtypes_of_pytorch(Device device, const std::string& list) {
  auto cases = all_cases();
  std::istringstream rows(test::golden_texts("autocast.txt").at(list));
  std::string name, from_f32, from_bf16;
  while (rows >> name >> from_f32 >> from_bf16) {
    SCOPED_TRACE(name);
    ASSERT_EQ(cases.count(name), 1);
    const Case c = cases.extract(name).mapped();
    for (const auto& [dtype, wanted] : {std::pair{f32, from_f32}, std::pair{bf16, from_bf16}}) {
      Operands operands;
      for (const Dims& shape : c.shapes)
        operands.push_back((rand(shape) / 2.0 + 0.2).to(dtype).to(device).requires_grad_());
      Tensor y;
      {
        const Autocast amp(device, bf16);
        y = c.run(operands);
        EXPECT_EQ(y.dtype(), parse_dtype(wanted)) << "of " << dtype;
        backward({y}, {ones_like(y)});
      }
      for (const Tensor& x : operands) {
        EXPECT_EQ(x.grad().dtype(), dtype);
      }
    }
  }
  EXPECT_TRUE(cases.empty()) << cases.begin()->first << " is not in the golden";
}

TEST(Autocast, OpsReturnWhatPyTorchsDo) { expect_dtypes_of_pytorch(Device::cpu(), "cpu"); }

#ifdef RONDO_HAS_CUDA
TEST(Autocast, OpsOnAGpuReturnWhatPyTorchsDo) {
  std::optional<test::SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace();
  expect_dtypes_of_pytorch(Device::cuda(), "cuda");

  const Device gpu = Device::cuda();
  const Tensor index = zeros({1}, {.dtype = i64}).to(gpu), x = ones({1}).to(gpu),
               half = ones({1}, {.dtype = f16}).to(gpu);
  EXPECT_THROW(scatter_add(x, 0, index, half), DTypeError);
  const Autocast amp(gpu, f16);
  EXPECT_EQ(scatter_add(x, 0, index, half).dtype(), f32);
  EXPECT_EQ(scatter_add(half, 0, index, x).dtype(), f32);
  EXPECT_EQ(scatter_add(half, 0, index, half).dtype(), f16);
  EXPECT_EQ(matmul(ones({1, 1}), ones({1, 1})).dtype(), f32) << "the CPU has no scope here";
  // 1.1 in f32 is wrong by less than 2^-24 of it, and its tenth power by ten times as much.
  EXPECT_NEAR(pow(1.1, half * 10).item(), std::pow(1.1, 10), 2e-6) << "1.1 was rounded to f16";
}
#endif

TEST(Autocast, IsWhatCastsByHandCompute) {
  const Tensor x = randn({8, 3, 6, 6}), w = randn({4, 3, 3, 3}), fc = randn({5, 64}),
               bias = randn({5}), target = indices({0, 1, 2, 3, 4, 0, 1, 2});
  const auto gradients = [&](bool by_hand) {
    const Tensor a = w.clone().requires_grad_(), b = fc.clone().requires_grad_(),
                 c = bias.clone().requires_grad_();
    const auto low = [&](const Tensor& t) { return by_hand ? t.to(bf16) : t; };
    std::optional<Autocast> amp;
    if (!by_hand) amp.emplace(Device::cpu(), bf16);
    const Tensor y = relu(conv2d(low(x), low(a)));
    const Tensor z = linear(flatten(avg_pool2d(y, {1, 1}).narrow(2, 0, 4), 1), low(b), low(c));
    const Tensor loss = cross_entropy(by_hand ? z.to(f32) : z, target);
    amp.reset();
    loss.backward();
    return Tensors{loss.detach(), a.grad(), b.grad(), c.grad()};
  };
  const Tensors wanted = gradients(true), got = gradients(false);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(identical(got[i], wanted[i])) << i;
}

TEST(Autocast, BackwardInTheScopeComputesAsOutside) {
  const auto gradient = [](bool inside) {
    manual_seed(1);
    const Tensor x = randn({4, 3}), w = randn({2, 3}).requires_grad_();
    std::optional<Autocast> amp(std::in_place, Device::cpu(), bf16);
    Tensor y = (exp(linear(x, w)).to(f32) * matmul(x, w.transpose(0, 1)).to(f32)).sum();
    {  // in f32, and so must its gradient be; an autocast scope would cast its operands
      const NoAutocast off;
      y = y + matmul(square(matmul(x, w.transpose(0, 1))), ones({2, 1})).sum();
    }
    if (!inside) amp.reset();
    y.backward();
    return w.grad();
  };
  EXPECT_TRUE(identical(gradient(true), gradient(false)));
}

TEST(Autocast, SecondDerivativesGoThroughTheCasts) {
  const Tensor w = tensor({3.0f}).requires_grad_();
  Tensor y;
  {
    const Autocast amp(Device::cpu(), bf16);
    const Tensor m = reshape(w, {1, 1});
    y = matmul(matmul(m, m), m).to(f32).sum();  // w^3
  }
  const Tensor first = grad({y}, {w}, {.create_graph = true})[0];
  EXPECT_EQ(first.item<double>(), 27);
  EXPECT_EQ(grad({first}, {w})[0].item<double>(), 18);
}

/// The node that casts x, which Autocast put on the tape. An op that gets x reads its result.
const void* cast_of(const Tensor& x) {
  return gradient_edge(linear(ones({1, 2}), x)).node->edges[1].node.get();
}

TEST(Autocast, ALeafIsCastOnceInAScope) {
  const Tensor w = ones({1, 2}).requires_grad_();
  const void* first = nullptr;
  {
    const Autocast amp(Device::cpu(), bf16);
    first = cast_of(w);
    EXPECT_EQ(cast_of(w), first);
    {
      const Autocast inner(Device::cpu(), bf16);
      EXPECT_EQ(cast_of(w), first) << "scopes within share what was cast";
    }
    {
      const NoAutocast off;
      EXPECT_NE(cast_of(w), first);
      EXPECT_EQ(linear(ones({1, 2}), w).dtype(), f32);
    }
    EXPECT_EQ(cast_of(w), first);
    {
      const NoGradGuard no_grad;
      EXPECT_FALSE(linear(ones({1, 2}), w).requires_grad());
      w.fill_(2);
    }
    EXPECT_EQ(linear(ones({1, 2}), w).item<float>(), 4) << "what was written is seen";
    EXPECT_NE(cast_of(w), first);
  }
  {
    const NoGradGuard no_grad;
    const Autocast amp(Device::cpu(), bf16);
    EXPECT_EQ(linear(ones({1, 2}), w).item<float>(), 4);
    const GradModeGuard grad(true);
    EXPECT_TRUE(linear(ones({1, 2}), w).requires_grad()) << "no cast without a way back is kept";
  }
  const Autocast amp(Device::cpu(), bf16);
  linear(ones({1, 2}), w).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Autocast, LeavesWhatIsNoFloatAlone) {
  const Autocast amp(Device::cpu(), bf16);
  EXPECT_EQ(matmul(ones({2, 2}, {.dtype = f64}), ones({2, 2}, {.dtype = f64})).dtype(), f64);
  EXPECT_EQ(prod(ones({2}, {.dtype = i64})).dtype(), i64);
  const Tensor bias;
  EXPECT_EQ(linear(ones({1, 2}), ones({3, 2}), bias).dtype(), bf16);
}

TEST(Autocast, BelongsToItsThread) {
  const Autocast amp(Device::cpu(), bf16);
  const AutocastTypes types = Autocast::types();
  std::thread([&] {
    EXPECT_EQ(matmul(ones({1, 1}), ones({1, 1})).dtype(), f32);
    const Autocast as_there(types);
    EXPECT_EQ(matmul(ones({1, 1}), ones({1, 1})).dtype(), bf16);
  }).join();
}

TEST(Autocast, RefusesTypesThatItHasNoProductsFor) {
  const auto open = [](Device device, DType dtype) {
    return [=] { const Autocast amp(device, dtype); };
  };
  EXPECT_EQ(
      message_of<DTypeError>(open(Device::cpu(), f16)),
      "autocast: f16 is not supported on the CPU, because oneDNN has no f16 products; use bf16");
  EXPECT_EQ(message_of<DTypeError>(open(Device::cpu(), f32)),
            "autocast: f32 is not a 16-bit floating-point type; use bf16");
  EXPECT_EQ(message_of<DTypeError>(open(Device::cuda(), f64)),
            "autocast: f64 is not a 16-bit floating-point type; use bf16 or f16");
  EXPECT_FALSE(Autocast::is_enabled());
}

}  // namespace
}  // namespace rondo
