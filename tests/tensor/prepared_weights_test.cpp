// When a weight's prepared form is made, kept, and made anew.

#include "tensor/cpu/prepared_weights.h"

#include <thread>

#include "autograd/grad_mode.h"
#include "autograd/ops/conv.h"
#include "support/support.h"
#include "tensor/backend.h"

namespace rondo {
namespace {

/// Makes forms that are copies of the weight, and counts them.
struct Maker {
  int made = 0;
  std::vector<float> operator()(const Tensor& w, const cpu::WeightForm& form = {}) {
    const auto bytes = static_cast<std::size_t>(w.nbytes());
    const StoragePtr kept = cpu::prepared_weight(w, form, bytes, [&](void* data) {
      ++made;
      std::memcpy(data, w.data_ptr(), bytes);
    });
    const auto* values = static_cast<const float*>(kept->data());
    return {values, values + w.numel()};
  }
};

TEST(PreparedWeights, AreKeptFromAVersionsSecondUseOn) {
  Tensor w = tensor<float>({1, 2, 3});
  Maker make;
  for (int uses = 0; uses < 4; ++uses) EXPECT_EQ(make(w), w.to_vector<float>());
  EXPECT_EQ(make.made, 2);
  {
    NoGradGuard no_grad;
    w.fill_(5);
  }
  for (int uses = 0; uses < 4; ++uses) EXPECT_EQ(make(w), w.to_vector<float>());
  EXPECT_EQ(make.made, 4);
}

TEST(PreparedWeights, EachFormAndEachViewHasItsOwn) {
  const Tensor w = tensor<float>({1, 2, 3, 4});
  const Tensor end = w.as_view({2}, {1}, 2);
  Maker make;
  for (int uses = 0; uses < 3; ++uses) {
    EXPECT_EQ(make(w, {.number = 1}).size(), 4u);
    EXPECT_EQ(make(w, {.number = 2}).size(), 4u);
    EXPECT_EQ(make(end, {.number = 1}), (std::vector<float>{3, 4}));
  }
  EXPECT_EQ(make.made, 6);
}

TEST(PreparedWeights, TensorsThatCountApartDoNotBelieveEachOther) {
  Tensor w = tensor<float>({1, 2}), other = tensor<float>({0, 0});
  other.set_data(w);
  while (other.version() < 5) other.bump_version();
  while (w.version() < 5) w.bump_version();
  Maker make;
  for (int uses = 0; uses < 3; ++uses) (void)make(w);
  w.data_ptr<float>()[0] = 7;  // seen through the other at the same number
  EXPECT_EQ(make(other), (std::vector<float>{7, 2}));
}

TEST(PreparedWeights, ManyFormsAreNotKeptForEver) {
  const Tensor w = tensor<float>({1});
  Maker make;
  for (std::int64_t form = 0; form < 100; ++form)
    for (int uses = 0; uses < 2; ++uses) (void)make(w, {.number = form});
  EXPECT_EQ(make.made, 200);
  (void)make(w, {.number = 0});  // long forgotten
  EXPECT_EQ(make.made, 201);
}

TEST(PreparedWeights, ThreadsMayShareAWeight) {
  const Tensor w = tensor<float>({1, 2, 3});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&w] {
      Maker make;
      for (int uses = 0; uses < 100; ++uses)
        EXPECT_EQ(make(w, {.number = uses % 3}), (std::vector<float>{1, 2, 3}));
      EXPECT_LE(make.made, 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// By whichever kernel: 3x3 by Winograd's, 5x5 by oneDNN's.
TEST(PreparedWeights, ConvolutionsSeeChangedWeights) {
  NoGradGuard no_grad;
  for (std::int64_t filter : {3, 5}) {
    const Tensor x = randn({2, 16, 16, 16});
    Tensor w = randn({16, 16, filter, filter});
    auto convolved = [&](const Tensor& weight) {
      return conv2d(x, weight, {}, {.padding = filter / 2}).to_vector<float>();
    };
    const auto before = convolved(w);
    for (int uses = 0; uses < 3; ++uses) EXPECT_EQ(convolved(w), before);
    w.copy_(randn({16, 16, filter, filter}));
    EXPECT_EQ(convolved(w), convolved(w.clone()));
    EXPECT_NE(convolved(w), before);
    w.data_ptr<float>()[0] += 1;
    w.bump_version();
    EXPECT_EQ(convolved(w), convolved(w.clone()));
  }
}

}  // namespace
}  // namespace rondo
