// A child that a rank forks (system(), popen() and subprocess helpers also fork) is not a rank.
// When it ends it must send no goodbye, join no threads that it does not have, and not call MPI.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "data/dataset.h"
#include "data/loader.h"
#include "dist/data_parallel/reproducible.h"
#include "dist/launch/init.h"
#include "dist/transports/thread/thread_transport.h"
#include "nn/linear.h"
#include "support/files.h"
#include "support/mpi_main.h"
#include "tensor/creation.h"
#include "tensor/lock_file.h"

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
  nn::AnyModule model{nn::Linear(2, 2)};
  auto reproducible = std::make_unique<ReproducibleDataParallel>(
      model, std::make_shared<Communicator>(thread_transports(1)[0]),
      ReproducibleOptions{.shards = 8, .threads = 2});
  test::TemporaryFolder scratch;
  auto lock = std::make_unique<LockFile>(scratch / "lock", "a test");
  EXPECT_EQ(status_of([&] {
              loader.reset();
              reproducible.reset();
              lock.reset();
              comm.reset();
            }),
            7);
  EXPECT_TRUE(std::filesystem::exists(scratch / "lock"));
  comm->barrier();
}

TEST_F(Fork, AChildThatFailsSpeaksForItself) {
  EXPECT_EQ(status_of([] { std::_Exit(run([]() -> int { throw Error("a mistake"); })); }), 1);
  world()->barrier();
}

}  // namespace
}  // namespace rondo::dist
