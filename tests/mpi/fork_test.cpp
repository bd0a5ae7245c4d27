// A child that a rank forks (system(), popen() and subprocess helpers also fork) is not a rank.
// When it ends it must send no goodbye, join no threads that it does not have, and not call MPI.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "data/dataset.h"
#include "data/loader.h"
#include "dist/launch/init.h"
#include "support/mpi_main.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using test::world;

class Fork : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer ends a process that forks with threads";
#endif
  }
};

/// The exit status of a child that runs `body`; -1 if it had not ended after 20 s.
int status_of(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::_Exit(7);
  }
  for (int i = 0; i < 2000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

TEST_F(Fork, AChildThatExitsLeavesTheWorldAlone) {
  auto comm = world();
  comm->barrier();  // the parent's threads and connections still exist
  EXPECT_EQ(status_of([] { std::exit(3); }), 3);
  Tensor x = ones({3});
  comm->all_reduce(x);
  EXPECT_EQ(x[0].item(), comm->world_size());
}

TEST_F(Fork, WhatAChildLetsGoOfIsNotWaitedFor) {
  auto comm = world()->duplicate();
  comm->barrier();
  const Tensor x = ones({64, 2});
  auto dataset = std::make_shared<data::TensorDataset>(x, ones({64}, {.dtype = i64}));
  auto loader =
      std::make_unique<data::DataLoader>(dataset, std::make_shared<data::SequentialSampler>(64),
                                         data::DataLoaderOptions{.batch_size = 4, .workers = 2});
  auto batch = loader->begin();
  EXPECT_EQ(status_of([&] {
              loader.reset();
              comm.reset();
            }),
            7);
  comm->barrier();
}

TEST_F(Fork, AChildThatFailsSpeaksForItself) {
  EXPECT_EQ(status_of([] { std::_Exit(run([]() -> int { throw Error("a mistake"); })); }), 1);
  world()->barrier();
}

}  // namespace
}  // namespace rondo::dist
