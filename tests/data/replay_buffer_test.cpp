#include "data/replay_buffer.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "data/loader.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::identical;
using test::message_of;
using ::testing::HasSubstr;

Tensor pair_of(float value) { return tensor<float>({value, -value}); }

TEST(ReplayBuffer, TheOldestMakesRoom) {
  ReplayBuffer buffer(3);
  EXPECT_EQ(buffer.size(), 0);
  for (int i = 0; i < 5; ++i) {
    buffer.push(pair_of(static_cast<float>(i)), scalar(i, {.dtype = i64}));
    EXPECT_EQ(buffer.size(), std::min(i + 1, 3));
  }
  EXPECT_EQ(buffer.capacity(), 3);
  EXPECT_EQ(buffer.pushed(), 5);
  const std::vector<std::int64_t> all{0, 1, 2};
  const Batch batch = buffer.get_batch(all);
  EXPECT_TRUE(identical(batch.input, tensor<float>({3, -3, 4, -4, 2, -2}, {3, 2})));
  EXPECT_TRUE(identical(batch.target, tensor<std::int64_t>({3, 4, 2})));
}

TEST(ReplayBuffer, CopiesWhatItIsGiven) {
  ReplayBuffer buffer(2);
  const Tensor matrix = tensor<float>({1, 2, 3, 4}, {2, 2});
  buffer.push(matrix.as_view({2, 2}, {1, 2}, 0), matrix);  // transposed: not contiguous
  matrix.data_ptr<float>()[0] = 9;
  const std::vector<std::int64_t> first{0};
  EXPECT_EQ(buffer.get_batch(first).input.to_vector(), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(buffer.get_batch(first).target.to_vector(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(ReplayBuffer, LoadersGoOverWhatIsFilled) {
  auto buffer = std::make_shared<ReplayBuffer>(8);
  for (int i = 0; i < 5; ++i) buffer->push(pair_of(static_cast<float>(i)), scalar(1.0));
  for (const int workers : {0, 2}) {
    DataLoader loader(buffer, std::make_shared<RandomSampler>(buffer->size(), 1),
                      {.batch_size = 2, .workers = workers});
    float sum = 0;
    std::int64_t seen = 0;
    for (auto& [x, y] : loader) {
      seen += x.size(0);
      for (const float value : x.select(1, 0).to_vector()) sum += value;
    }
    EXPECT_EQ(seen, 5);
    EXPECT_EQ(sum, 0 + 1 + 2 + 3 + 4);
  }
}

TEST(ReplayBuffer, ALoopThatHasBegunSeesWhatWasPushedIntoItsPlaces) {
  auto buffer = std::make_shared<ReplayBuffer>(4);
  for (int i = 0; i < 4; ++i) buffer->push(pair_of(static_cast<float>(i)), scalar(1.0));
  DataLoader loader(buffer, std::make_shared<SequentialSampler>(buffer->size()), {.batch_size = 2});
  std::vector<float> seen;
  for (auto& [x, y] : loader) {
    for (const float value : x.select(1, 0).to_vector()) seen.push_back(value);
    for (int i = 10; i < 13; ++i) buffer->push(pair_of(static_cast<float>(i)), scalar(1.0));
  }
  EXPECT_EQ(seen, (std::vector<float>{0, 1, 12, 3}));
}

TEST(ReplayBuffer, NoBatchHoldsHalfOfASample) {
  auto buffer = std::make_shared<ReplayBuffer>(16);
  const auto sample = [](float value) { return full({1000}, value); };
  for (int i = 0; i < 16; ++i) buffer->push(sample(0), sample(0));
  std::atomic<bool> ends = false;
  std::thread solver([&] {
    for (int i = 1; !ends; ++i)
      buffer->push(sample(static_cast<float>(i)), sample(-static_cast<float>(i)));
  });
  DataLoader loader(buffer, std::make_shared<RandomSampler>(buffer->size(), 1),
                    {.batch_size = 4, .workers = 2});
  bool are_whole = true;
  const std::int64_t before = buffer->pushed();
  for (int epoch = 0; epoch < 50; ++epoch) {
    for (auto& [x, y] : loader) {
      const auto in = x.to_vector(), out = y.to_vector();
      for (std::size_t i = 0; i < in.size(); ++i)
        are_whole &= in[i] == in[i / 1000 * 1000] && out[i] == -in[i];
    }
  }
  EXPECT_GT(buffer->pushed(), before);
  ends = true;
  solver.join();
  EXPECT_TRUE(are_whole);
}

TEST(ReplayBuffer, WhatDoesNotFitIsNamedAndChangesNothing) {
  EXPECT_THAT(message_of<Error>([] { ReplayBuffer(0); }), HasSubstr("capacity 0 is below 1"));
  ReplayBuffer buffer(2);
  const std::vector<std::int64_t> first{0}, second{1};
  EXPECT_THAT(message_of<ShapeError>([&] { buffer.get_batch(first); }),
              HasSubstr("sample 0 was asked for, but the buffer has 0 samples"));
  EXPECT_THAT(message_of<ShapeError>([&] { buffer.get_batch({}); }), HasSubstr("push some first"));
  buffer.push(pair_of(1), scalar(2.0));
  EXPECT_THAT(message_of<ShapeError>([&] {
                buffer.push(tensor<float>({1, 2, 3}), scalar(2.0));
              }),
              HasSubstr("input has shape [3], but the first sample's has [2]"));
  EXPECT_THAT(message_of<DTypeError>([&] { buffer.push(pair_of(2), scalar(2, {.dtype = i64})); }),
              HasSubstr("target is i64, but the first sample's is f32"));
  EXPECT_EQ(buffer.size(), 1);
  EXPECT_EQ(buffer.get_batch(first).input.to_vector(), (std::vector<float>{1, -1}));
  EXPECT_THAT(message_of<ShapeError>([&] { buffer.get_batch(second); }), HasSubstr("sample 1 "));
}

}  // namespace
}  // namespace rondo::data
