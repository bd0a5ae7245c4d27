#include "nn/kv_cache.h"

#include <gtest/gtest.h>

#include "autograd/ops/attention.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/support.h"

namespace rondo::test {
namespace {

TEST(KeyValueCache, KeepsAllKeysOfEachLayer) {
  const Tensor k = fill({2, 3, 9, 4}, 0), v = fill({2, 3, 9, 5}, 1);
  nn::KeyValueCache cache;
  EXPECT_EQ(cache.length(), 0);
  std::int64_t at = 0;
  for (const std::int64_t length : {3, 1, 1, 0, 4}) {
    for (const std::int64_t layer : {0, 2}) {
      const auto [keys, values] =
          cache.append(layer, k.narrow(2, at, length), v.narrow(2, at, length));
      EXPECT_TRUE(identical(keys.clone(), k.narrow(2, 0, at + length).clone()));
      EXPECT_TRUE(identical(values.clone(), v.narrow(2, 0, at + length).clone()));
    }
    at += length;
    EXPECT_EQ(cache.length(), at);
    EXPECT_EQ(cache.length(1), 0);
    EXPECT_EQ(cache.length(2), at);
  }
}

TEST(KeyValueCache, CopiesItsKeysOnlyWhenItIsFull) {
  nn::KeyValueCache cache;
  const Tensor one = ones({1, 1, 1, 2});
  const void* last = nullptr;
  int moves = 0;
  for (int i = 0; i < 64; ++i) {
    const void* here = cache.append(0, one, one).first.data_ptr();
    moves += here != last;
    last = here;
  }
  EXPECT_EQ(moves, 7);
}

TEST(CausalAttention, IsTheSameInPieces) {
  const Tensor q = fill({2, 4, 6, 4}, 0), k = fill({2, 2, 6, 4}, 1), v = fill({2, 2, 6, 4}, 2);
  const Tensor whole =
      scaled_dot_product_attention(q, k, v, {.is_causal = true, .enable_gqa = true});
  EXPECT_TRUE(identical(nn::causal_attention(q, k, v, nullptr, 0), whole));
  nn::KeyValueCache cache;
  Tensors parts;
  std::int64_t at = 0;
  for (const std::int64_t length : {2, 1, 3}) {
    const auto part = [&](const Tensor& x) { return x.narrow(2, at, length); };
    parts.push_back(nn::causal_attention(part(q), part(k), part(v), &cache, 0));
    at += length;
  }
  EXPECT_TRUE(all_close(cat(parts, 2), whole, tolerance(f64, 24)));
}

TEST(KeyValueCacheErrors, NameWhatDoesNotContinue) {
  nn::KeyValueCache cache;
  const Tensor k = zeros({2, 3, 4, 5});
  EXPECT_ERROR(cache.append(0, zeros({2, 3}), k), ShapeError,
               "keys [2, 3] of f32 and values [2, 3, 4, 5] of f32 do not continue each other");
  EXPECT_THROW(cache.append(0, k, zeros({2, 3, 5, 5})), ShapeError);
  EXPECT_EQ(cache.length(), 0);
  cache.append(0, k, k);
  EXPECT_ERROR(cache.append(0, zeros({2, 2, 4, 5}), k), ShapeError,
               "do not continue a cache of [2, 3, 4, 5] of f32");
  EXPECT_THROW(cache.append(0, k.to(f64), k.to(f64)), ShapeError);
  EXPECT_EQ(cache.length(), 4);
  EXPECT_ERROR(cache.append(-1, k, k), Error, "the layer -1 is negative");
  const Tensor trained = zeros({2, 3, 4, 5}).requires_grad_();
  EXPECT_ERROR(cache.append(0, trained, k), Error, "call the model under NoGradGuard");
}

}  // namespace
}  // namespace rondo::test
