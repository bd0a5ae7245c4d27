// When the prepared form of a weight is made, kept, and recomputed.

#include "tensor/cpu/prepared_weights.h"

#include <thread>

#include "autograd/grad_mode.h"
#include "autograd/ops/conv.h"
#include "support/support.h"
#include "tensor/backend.h"

namespace rondo {
namespace {

using Kind = cpu::WeightForm::Kind;
const cpu::WeightForm winograd{.kind = Kind::winograd}, panels{.kind = Kind::panels};

/// Makes forms that are copies of the weight, and counts them.
struct Maker {
  int made = 0;
  std::vector<float> operator()(const Tensor& w, const cpu::WeightForm& form = winograd) {
    const auto bytes = static_cast<std::size_t>(w.nbytes());
    const StoragePtr kept = cpu::prepared_weight(w, form, bytes, [&](void* data) {
      ++made;
      std::memcpy(data, w.data_ptr(), bytes);
    });
    const auto* values = static_cast<const float*>(kept->data());
    return {values, values + w.numel()};
  }
};

TEST(PreparedWeights, AreKeptFromAVersionsThirdUseOn) {
  Tensor w = tensor<float>({1, 2, 3});
  Maker make;
  for (int uses = 0; uses < 5; ++uses) EXPECT_EQ(make(w), w.to_vector<float>());
  EXPECT_EQ(make.made, 3);
  {
    NoGradGuard no_grad;
    w.fill_(5);
  }
  for (int uses = 0; uses < 5; ++uses) EXPECT_EQ(make(w), w.to_vector<float>());
  EXPECT_EQ(make.made, 6);
}

TEST(PreparedWeights, EachFormAndEachViewHasItsOwn) {
  const Tensor w = tensor<float>({1, 2, 3, 4});
  const Tensor end = w.as_view({2}, {1}, 2), begin = w.as_view({2}, {1}, 0);
  Maker make;
  for (int uses = 0; uses < 5; ++uses) {
    EXPECT_EQ(make(w, winograd).size(), 4u);
    EXPECT_EQ(make(w, panels).size(), 4u);
    EXPECT_EQ(make(end, winograd), (std::vector<float>{3, 4}));
    EXPECT_EQ(make(begin, winograd), (std::vector<float>{1, 2}));
  }
  EXPECT_EQ(make.made, 12);
}

TEST(PreparedWeights, AWriteCountsThroughWhicheverTensorOfTheMemory) {
  const Tensor w = tensor<float>({1, 2}), other = tensor<float>({0, 0});
  other.set_data(w);
  Maker make;
  NoGradGuard no_grad;
  for (const auto& [writer, reader] : {std::pair(w, other), std::pair(other, w)}) {
    for (int uses = 0; uses < 4; ++uses) (void)make(reader);
    writer.fill_(reader.to_vector<float>()[0] + 1);
    EXPECT_EQ(make(reader), writer.to_vector<float>());
  }
}

TEST(PreparedWeights, ManyTensorsOfOneStorageKeepTheirs) {
  const Tensor all = zeros({20});
  Maker make;
  for (int uses = 0; uses < 6; ++uses)
    for (std::int64_t i = 0; i < 20; ++i) (void)make(all.as_view({1}, {1}, i));
  EXPECT_EQ(make.made, 60);
}

TEST(PreparedWeights, ManyAreNotKeptForEver) {
  const Tensor all = zeros({1000});
  Maker make;
  for (std::int64_t i = 0; i < 1000; ++i)
    for (int uses = 0; uses < 4; ++uses) (void)make(all.as_view({1}, {1}, i));
  EXPECT_EQ(make.made, 3000);
  (void)make(all.as_view({1}, {1}, 0));  // no longer in the cache
  EXPECT_EQ(make.made, 3001);
}

/// One weight is a view of the first channels of another, as in networks of several widths.
TEST(PreparedWeights, ConvolutionsOfPartsAndOfTheWholeInTurns) {
  NoGradGuard no_grad;
  const Tensor x = randn({2, 32, 16, 16}), w = randn({64, 32, 3, 3});
  const Tensor half = w.as_view({32, 32, 3, 3}, w.strides(), 0);
  auto convolved = [&](const Tensor& weight) {
    return conv2d(x, weight, {}, {.padding = 1}).to_vector<float>();
  };
  const auto of_half = convolved(half.clone()), of_all = convolved(w.clone());
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(convolved(half), of_half);
    EXPECT_EQ(convolved(w), of_all);
  }
}

TEST(PreparedWeights, AWriteWhileAFormIsMadeIsNotLost) {
  const Tensor w = tensor<float>({1});
  Maker make;
  for (int uses = 0; uses < 2; ++uses) (void)make(w);
  (void)cpu::prepared_weight(w, winograd, sizeof(float), [&](void* data) {
    std::memcpy(data, w.data_ptr(), sizeof(float));
    w.data_ptr<float>()[0] = 7;
    w.bump_version();
  });
  EXPECT_EQ(make(w), std::vector<float>{7});
}

TEST(PreparedWeights, ThreadsMayShareAWeight) {
  const Tensor w = tensor<float>({1, 2, 3});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&w] {
      Maker make;
      for (int uses = 0; uses < 100; ++uses)
        EXPECT_EQ(make(w, uses % 2 == 0 ? winograd : panels), (std::vector<float>{1, 2, 3}));
      EXPECT_LE(make.made, 6);  // each form three times
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// With each kernel: Winograd's for 3x3, oneDNN's for 5x5.
TEST(PreparedWeights, ConvolutionsSeeChangedWeights) {
  NoGradGuard no_grad;
  for (std::int64_t filter : {3, 5}) {
    const Tensor x = randn({2, 16, 16, 16});
    Tensor w = randn({16, 16, filter, filter});
    auto convolved = [&](const Tensor& weight) {
      return conv2d(x, weight, {}, {.padding = filter / 2}).to_vector<float>();
    };
    const auto before = convolved(w);
    for (int uses = 0; uses < 4; ++uses) EXPECT_EQ(convolved(w), before);
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
