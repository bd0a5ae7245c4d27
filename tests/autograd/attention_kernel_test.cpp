// Attention by the backend's kernels against the composed ops in f64, which tests/golden compares
// with PyTorch (attention_test.cpp). Runs once for each instruction set, and on a GPU.

#include <gtest/gtest.h>
#include <omp.h>

#include <limits>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/support.h"
#include "support/test_device.h"
#include "tensor/backend.h"
#include "tensor/cpu/allocator.h"

namespace rondo::test {
namespace {

struct Case {
  Dims q, k, v;
  AttentionOptions options = {};
};

/// The output and the gradients of q, k and v for a given gradient of the output, as f64. Inputs
/// are rounded to `rounded` first, then computed in `dtype`: f64 on the CPU, others on the device
/// that is tested.
Tensors all_of(const Case& c, DType rounded, DType dtype, bool create_graph = false) {
  const auto given = [&](const Tensor& x) {
    return x.to(rounded).to(dtype).to(dtype == f64 ? Device::cpu() : test_device());
  };
  Tensors x;
  for (const Dims& shape : {c.q, c.k, c.v})
    x.push_back(given(fill(shape, static_cast<std::uint32_t>(x.size()), 2)));
  for (Tensor& t : x) t.requires_grad_();
  AttentionOptions options = c.options;
  Tensor& mask = options.attn_mask;
  if (mask.defined()) mask = mask.dtype() != boolean ? given(mask) : mask.to(x[0].device());
  manual_seed(5);
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
  const Tensor dy = given(fill(y.shape(), 9));
  Tensors found = grad({y}, x, {.grad_outputs = {dy}, .create_graph = create_graph});
  found.insert(found.begin(), y.detach());
  for (Tensor& t : found) t = t.detach().to(Device::cpu()).to(f64);
  return found;
}

/// Compares with f64, to the tolerance of sums over `dtype`'s terms. Values are below 2, weights
/// add up to 1 (with dropout to 1 / (1 - p)), and scores are below 4 E / sqrt(E).
void expect_as_composed(const std::string& name, const Case& c, DType dtype = f32) {
  SCOPED_TRACE(name);
  const Tensors expected = all_of(c, dtype, f64), found = all_of(c, dtype, dtype);
  const std::int64_t terms =
      std::max(c.q[c.q.size() - 2], c.k[c.k.size() - 2]) + c.q[c.q.size() - 1];
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(all_close(found[i], expected[i], tolerance(dtype, dtype == f32 ? terms : 1, 4)))
        << "result " << i;
}

TEST(AttentionKernel, AgreesWithTheComposedOpsForOddLengths) {
  for (const std::int64_t length : {1, 8, 31, 33, 65, 130})
    for (const std::int64_t keys : {1, 31, 64, 130}) {
      const Case c{{1, 2, length, 20}, {1, 2, keys, 20}, {1, 2, keys, 36}};
      const std::string name = concat(length, " queries, ", keys, " keys");
      expect_as_composed(name, c);
      expect_as_composed(name + ", causal", {c.q, c.k, c.v, {.is_causal = true}});
    }
}

TEST(AttentionKernel, HasPartsOfTheKeysInBackward) {
  expect_as_composed("parts", {{40, 32}, {1100, 32}, {1100, 16}});
  expect_as_composed("parts, causal",
                     {{1, 700, 32}, {1, 700, 32}, {1, 700, 32}, {.is_causal = true}});
}

TEST(AttentionKernel, TakesMasks) {
  const Case c{{2, 3, 33, 8}, {2, 3, 70, 8}, {2, 3, 70, 8}};
  const auto with = [&](const Tensor& mask) { return Case{c.q, c.k, c.v, {.attn_mask = mask}}; };
  const Tensor numbers = fill({2, 1, 33, 70}, 50);
  expect_as_composed("floating", with(numbers));
  expect_as_composed("bias of all heads", with(fill({70}, 51)));
  const Tensor padding = gt(fill({2, 1, 1, 70}, 52), 0.3);
  expect_as_composed("padding", with(padding));
  const Tensor mask = gt(numbers, 0);
  mask.select(2, 1).fill_(false);  // query 1 has no keys
  mask.select(2, 32).fill_(false);
  expect_as_composed("boolean", with(mask));
  const Tensor infinite = where(mask, zeros({}, {.dtype = f64}),
                                full({}, -std::numeric_limits<double>::infinity(), {.dtype = f64}));
  expect_as_composed("minus infinity", with(infinite));
  expect_as_composed("one number", with(zeros({}, {.dtype = boolean})));
}

TEST(AttentionKernel, TakesWideHeads) {
  expect_as_composed("more than 128 features", {{2, 20, 150}, {2, 40, 150}, {2, 40, 260}});
  expect_as_composed("different", {{20, 5}, {70, 5}, {70, 140}, {.is_causal = true}});
}

TEST(AttentionKernel, GroupsQueriesAndBroadcasts) {
  const Case grouped{{2, 6, 33, 8}, {2, 2, 40, 8}, {2, 2, 40, 8}, {.enable_gqa = true}};
  expect_as_composed("grouped", grouped);
  Case masked = grouped;
  masked.options.attn_mask = fill({6, 33, 40}, 3);
  expect_as_composed("grouped, masked", masked);
  expect_as_composed("broadcast", {{2, 1, 3, 33, 8}, {4, 1, 40, 8}, {3, 40, 8}});
  expect_as_composed("matrices", {{33, 8}, {40, 8}, {40, 8}, {.scale = 0.1}});
}

TEST(AttentionKernel, DropsTheSameWeightsAsTheComposedOps) {
  const Case c{{2, 4, 33, 8}, {2, 2, 35, 8}, {2, 2, 35, 8}, {.dropout_p = 0.3, .enable_gqa = true}};
  expect_as_composed("dropout", c);
  expect_as_composed("everything", {c.q, c.k, c.v, {.dropout_p = 1, .enable_gqa = true}});
  expect_as_composed("causal",
                     {c.q, c.k, c.v, {.dropout_p = 0.5, .is_causal = true, .enable_gqa = true}});
}

TEST(AttentionKernel, OfNarrowFloatsHasTheirErrors) {
  for (const DType dtype : {bf16, f16}) {
    expect_as_composed("narrow", {{2, 3, 65, 32}, {2, 3, 65, 32}, {2, 3, 65, 32}}, dtype);
    expect_as_composed("causal", {{65, 32}, {65, 32}, {65, 32}, {.is_causal = true}}, dtype);
    expect_as_composed("not for cuDNN", {{65, 20}, {65, 20}, {65, 20}}, dtype);
  }
}

TEST(AttentionKernel, HasDerivativesOfItsGradients) {
  // With create_graph the gradients are composed of ops, from the same dropped weights.
  const Tensor mask = gt(fill({33, 40}, 3), -0.5);
  for (const AttentionOptions& options :
       {AttentionOptions{.is_causal = true, .enable_gqa = true},
        AttentionOptions{.attn_mask = mask, .dropout_p = 0.3, .enable_gqa = true}}) {
    const Case c{{2, 4, 33, 8}, {2, 2, 40, 8}, {2, 2, 40, 8}, options};
    const Tensors once = all_of(c, f32, f32), again = all_of(c, f32, f32, true);
    for (std::size_t i = 0; i < once.size(); ++i)
      EXPECT_TRUE(all_close(once[i], again[i], tolerance(f32, 48, 4))) << "result " << i;
  }
  const auto second = [](DType dtype) {
    Tensor x = fill({33, 8}, 0).to(dtype).to(dtype == f64 ? Device::cpu() : test_device());
    x.requires_grad_();
    const Tensor y = sum(scaled_dot_product_attention(x, x, x, {.is_causal = true}));
    const Tensor dx = grad({y}, {x}, {.create_graph = true})[0];
    return grad({sum(dx * dx)}, {x})[0].to(Device::cpu()).to(f64);
  };
  EXPECT_TRUE(all_close(second(f32), second(f64), tolerance(f32, 100, 8)));
}

TEST(AttentionKernel, ReadsViewsAndKeepsNaN) {
  const Tensor packed = fill32({2, 40, 3, 4, 16}, 1).to(test_device());  // (N, L, q k v, heads, E)
  const auto head = [&](std::int64_t i) { return transpose(packed.select(2, i), 1, 2); };
  const Tensor y = scaled_dot_product_attention(head(0), head(1), head(2));
  EXPECT_TRUE(identical(y, scaled_dot_product_attention(head(0).contiguous(), head(1).contiguous(),
                                                        head(2).contiguous())));
  const Tensor across = transpose(transpose(head(2), 2, 3).contiguous(), 2, 3);
  EXPECT_TRUE(identical(y, scaled_dot_product_attention(head(0), head(1), across)));
  const Tensor q = fill32({33, 8}, 1).to(test_device()), k = fill32({40, 8}, 2).to(test_device()),
               v = fill32({40, 8}, 3).to(test_device());
  q[3].fill_(std::numeric_limits<double>::quiet_NaN());
  const Tensor bad = isnan(scaled_dot_product_attention(q, k, v)).to(f32).sum({1});
  EXPECT_EQ(bad[3].item<float>(), 8);
  EXPECT_EQ(bad.sum().item<float>(), 8);
}

TEST(AttentionKernel, GivesTheSameBitsForAnyNumberOfThreads) {
  const Case c{{2, 2, 300, 16}, {2, 1, 600, 16}, {2, 1, 600, 16}, {.enable_gqa = true}};
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Tensors one = all_of(c, f32, f32);
  omp_set_num_threads(3);
  const Tensors three = all_of(c, f32, f32);
  omp_set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(identical(one[i], three[i]));
}

/// The peak of the bytes in use, in a forward and backward of `length` tokens, above those before.
double peak_bytes(std::int64_t length) {
  auto& memory = cpu::CachingAllocator::instance();
  const Tensor x = fill32({1, 32, length, 8}, 0).requires_grad_();
  memory.reset_peak();
  const std::size_t before = memory.stats().in_use;
  sum(scaled_dot_product_attention(x, x, x, {.is_causal = true})).backward();
  return static_cast<double>(memory.stats().peak - before);
}

TEST(AttentionKernel, NeedsMemoryLinearInTheLength) {
  // Twice the length: twice the bytes, of which the allocator rounds each up by at most a quarter.
  // The scores of 32 heads would need 128 MiB for 1,024 tokens.
  const double bytes = peak_bytes(512), twice = peak_bytes(1024);
  EXPECT_LT(twice, 2.5 * bytes);
  EXPECT_LT(twice, 32 << 20);
}

}  // namespace
}  // namespace rondo::test
