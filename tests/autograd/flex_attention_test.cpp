#include "autograd/ops/flex_attention.h"

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/support.h"

namespace rondo::test {
namespace {

/// The output and the gradients of q, k and v of attention by f.
template <class F>
Tensors all_of(DType dtype, F f) {
  Tensors x;
  for (std::uint32_t i = 0; i < 3; ++i)
    x.push_back(fill({2, 3, i == 0 ? 33 : 50, 8}, i, 2).to(f32).to(dtype).requires_grad_());
  const Tensor y = f(x[0], x[1], x[2]);
  Tensors found = grad({y}, x, {.grad_outputs = {fill(y.shape(), 9).to(f32).to(dtype)}});
  found.insert(found.begin(), y.detach());
  for (Tensor& t : found) t = t.detach().to(f64);
  return found;
}

/// `mod` in the kernel against `on_scores`, which maps all scores (2, 3, 33, 50) in f64.
template <class ScoreMod>
void expect_as_composed(ScoreMod mod, const std::function<Tensor(const Tensor&)>& on_scores,
                        const AttentionOptions& options = {}) {
  const Tensors found = all_of(f32, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return flex_attention(q, k, v, mod, options);
  });
  const Tensors expected = all_of(f64, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor scores = on_scores(matmul(q, transpose(k, 2, 3)) / std::sqrt(8.0));
    return matmul(softmax(scores, -1), v);
  });
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(all_close(found[i], expected[i], tolerance(f32, 58, 4))) << "result " << i;
}

Tensor positions(std::int64_t n) { return cumsum(ones({n}, {.dtype = f64}), 0) - 1; }

TEST(FlexAttention, ChangesScoresAndTheirGradients) {
  const Tensor distance = unsqueeze(positions(33), 1) - unsqueeze(positions(50), 0);
  const Tensor slope = reshape(positions(3) + 1, {3, 1, 1}) / 8;
  expect_as_composed([](Score s, auto...) { return s; }, [](const Tensor& s) { return s; });
  // A bias by distance with a slope for each head (ALiBi).
  expect_as_composed(
      [](Score s, auto, auto head, auto query, auto key) {
        return s - static_cast<float>((head + 1) * (query - key)) / 8;
      },
      [&](const Tensor& s) { return s - slope * distance; });
  // A soft cap, which changes the derivative.
  expect_as_composed([](Score s, auto...) { return 2 * tanh(s / 2); },
                     [](const Tensor& s) { return 2 * tanh(s / 2); });
  expect_as_composed(
      [](Score s, auto...) { return exp(-s * s / 4) - log(2 + s * s) / (4 + s * s); },
      [](const Tensor& s) { return exp(-s * s / 4) - log(2 + s * s) / (4 + s * s); });
}

TEST(FlexAttention, ExcludesKeysAndKnowsTheBatch) {
  const Tensor distance = unsqueeze(positions(33), 1) - unsqueeze(positions(50), 0);
  const Tensor reach = reshape(positions(2) * 4 + 3, {2, 1, 1, 1});
  const auto window = [](Score s, auto batch, auto, auto query, auto key) {
    return query - key < 3 + 4 * batch ? s : Score::excluded();
  };
  expect_as_composed(window, [&](const Tensor& s) {
    return masked_fill(s, ge(distance, reach), -std::numeric_limits<double>::infinity());
  });
  expect_as_composed(window,
                     [&](const Tensor& s) {
                       return masked_fill(s, logical_or(ge(distance, reach), lt(distance, 0)),
                                          -std::numeric_limits<double>::infinity());
                     },
                     {.is_causal = true});
}

TEST(FlexAttentionErrors, NameWhatIsMissing) {
  const auto same = [](Score s, auto...) { return s; };
  const Tensor x = fill32({16, 8}, 0);
  EXPECT_ERROR(flex_attention(x.to(f64), x.to(f64), x.to(f64), same), DTypeError,
               "flex_attention: cpu has no kernel for f64");
  EXPECT_ERROR(flex_attention(x, x.narrow(0, 0, 0), x.narrow(0, 0, 0), same), ShapeError,
               "flex_attention: q [16, 8], k [0, 8] or v [0, 8] is empty");
  EXPECT_ERROR(flex_attention(x, x, x, same, {.attn_mask = zeros({16, 16}).requires_grad_()}),
               Error, "attn_mask cannot require a gradient");
  Tensor q = fill32({16, 8}, 1).requires_grad_();
  const Tensor y = sum(flex_attention(q, x, x, same));
  EXPECT_ERROR((void)grad({y}, {q}, {.create_graph = true}), AutogradError,
               "flex_attention: has no second derivatives");
}

}  // namespace
}  // namespace rondo::test
