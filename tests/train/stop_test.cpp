#include "train/stop.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <thread>
#include <vector>

namespace rondo::train {
namespace {

int seen = 0;
extern "C" void see(int signal) { seen = signal; }

TEST(StopSignal, IsARequestWhileOneLives) {
  seen = 0;
  const auto before = std::signal(SIGTERM, see);
  {
    StopSignal stop;
    EXPECT_EQ(StopSignal::requested(), 0);
    std::raise(SIGTERM);
    EXPECT_EQ(StopSignal::requested(), SIGTERM);
    EXPECT_EQ(seen, 0);
  }
  {
    StopSignal stop;
    EXPECT_EQ(StopSignal::requested(), 0) << "the former one's";
  }
  std::raise(SIGTERM);
  EXPECT_EQ(seen, SIGTERM) << "the program's own handler is back";
  std::signal(SIGTERM, before);
}

/// Ranks are threads, which reach the begin and the end at different times.
TEST(StopSignal, TheLastOneOfManyGivesTheHandlerBack) {
  seen = 0;
  const auto before = std::signal(SIGINT, see);
  auto first = std::make_unique<StopSignal>();
  std::raise(SIGINT);
  auto second = std::make_unique<StopSignal>();
  EXPECT_EQ(StopSignal::requested(), SIGINT) << "who comes later does not take a request back";
  first.reset();
  second.reset();
  std::raise(SIGINT);
  EXPECT_EQ(seen, SIGINT);

  seen = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([] {
      for (int run = 0; run < 100; ++run) {
        StopSignal stop;
        EXPECT_EQ(StopSignal::requested(), 0);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::raise(SIGINT);
  EXPECT_EQ(seen, SIGINT);
  std::signal(SIGINT, before);
}

}  // namespace
}  // namespace rondo::train
