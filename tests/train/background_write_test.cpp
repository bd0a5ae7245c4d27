#include "train/background_write.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/errors.h"

namespace rondo::train {
namespace {

/// A write that lasts as long as the test wants.
struct Held {
  std::promise<void> release;
  std::atomic<bool> done = false;
  std::function<void()> write() {
    return [this] {
      release.get_future().wait();
      done = true;
    };
  }
};

TEST(BackgroundWrite, WaitThrowsWhatTheWriteThrew) {
  BackgroundWrite writing;
  writing.wait();  // nothing to wait for
  writing.start([] { throw IoError("disk full"); });
  EXPECT_ERROR(writing.wait(), IoError, "disk full");
  writing.wait();
}

TEST(BackgroundWrite, TheNextOneWaitsForTheOneBefore) {
  Held first;
  BackgroundWrite writing;
  writing.start(first.write());
  first.release.set_value();
  bool was_done = false;
  writing.start([&] { was_done = first.done; });
  writing.wait();
  EXPECT_TRUE(was_done);
  writing.start([] { throw IoError("disk full"); });
  EXPECT_ERROR(writing.start([] {}), IoError, "disk full");
}

TEST(BackgroundWrite, AnErrorOnItsWayUpDoesNotWait) {
  Held held;
  try {
    BackgroundWrite writing;
    writing.start(held.write());
    throw Error("the loss is nan");
  } catch (const Error&) {
  }
  EXPECT_FALSE(held.done);  // if the destructor waited, this test would hang
  held.release.set_value();
  finish_background_writes();
  EXPECT_TRUE(held.done);
}

TEST(BackgroundWrite, WhatFailsUnseenIsSaid) {
  testing::internal::CaptureStderr();
  {
    BackgroundWrite writing;
    writing.start([] { throw IoError("disk full"); });
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: disk full\n");
}

}  // namespace
}  // namespace rondo::train
