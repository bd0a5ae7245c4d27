// One process at a time holds the lock, and the others are told which.

#include "tensor/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <thread>

#include "support/errors.h"
#include "support/files.h"

namespace rondo {
namespace {

using test::message_of;
using ::testing::HasSubstr;

/// Redirects standard error to a pipe, from which the test reads.
class Stderr {
 public:
  Stderr() : before_(dup(STDERR_FILENO)) {
    if (pipe(ends_.data()) == 0) dup2(ends_[1], STDERR_FILENO);
  }
  ~Stderr() {
    restore();
    close(ends_[0]);
    close(ends_[1]);
  }
  /// Waits for the text.
  std::string line() const {
    std::string text;
    for (char c = 0; c != '\n' && read(ends_[0], &c, 1) == 1;) text += c;
    return text;
  }
  void restore() {
    if (before_ < 0) return;
    dup2(before_, STDERR_FILENO);
    close(before_);
    before_ = -1;
  }

 private:
  std::array<int, 2> ends_{};
  int before_;
};

TEST(LockFile, IsAFileOfThisUsersAlone) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "victim", "mine");
  std::filesystem::create_symlink(folder / "victim", folder / "link");
  std::filesystem::create_hard_link(folder / "victim", folder / "second_name");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "second_name", "pipe"})
    EXPECT_THAT(message_of<IoError>([&] { LockFile lock(folder / name, "held"); }),
                HasSubstr("cannot be written"))
        << name;
  EXPECT_EQ(test::read_file(folder / "victim"), "mine");
  {
    const LockFile lock(folder / "lock", "held");
    struct stat made {};
    ASSERT_EQ(::stat((folder / "lock").c_str(), &made), 0);
    EXPECT_EQ(made.st_mode & 0777, 0600);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "lock"));
}

TEST(LockFile, SaysWhichProcessHoldsIt) {
  const test::TemporaryFolder folder;
  std::array<int, 2> has_lock{}, may_end{};
  ASSERT_EQ(pipe(has_lock.data()) + pipe(may_end.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    char c = 'x';
    {
      const LockFile lock(folder / "lock", "held");
      if (write(has_lock[1], &c, 1) != 1 || read(may_end[0], &c, 1) != 1) _exit(1);
    }
    _exit(0);
  }
  char c = 'x';
  ASSERT_EQ(read(has_lock[0], &c, 1), 1);
  EXPECT_THAT(message_of<IoError>([&] { LockFile second(folder / "lock", "it trains"); }),
              AllOf(HasSubstr(concat((folder / "lock").string(), ": process ", child,
                                     " (test_tensor) on ")),
                    HasSubstr(" holds it: it trains")));
  ASSERT_EQ(write(may_end[1], &c, 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const LockFile free(folder / "lock", "held");
  for (const int end : {has_lock[0], has_lock[1], may_end[0], may_end[1]}) close(end);
}

TEST(LockFile, AWaitSaysForWhom) {
  const test::TemporaryFolder folder;
  std::optional<LockFile> first;
  first.emplace(folder / "lock", "held");
  Stderr standard_error;
  bool released = false, had_it_after = false;
  std::thread second([&] {
    const LockFile lock(folder / "lock", "it downloads", LockFile::IfHeld::wait);
    had_it_after = released;
  });
  const std::string line = standard_error.line();
  standard_error.restore();
  released = true;
  first.reset();
  second.join();
  EXPECT_TRUE(had_it_after);
  EXPECT_THAT(
      line,
      AllOf(HasSubstr(concat("waiting for ", (folder / "lock").string(), ": process ", getpid())),
            HasSubstr(" holds it: it downloads\n")));
}

// A lock file of an older version or another program does not name its holder.
TEST(LockFile, AHolderThatSaysNothing) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "lock", "\x1b[2J\x01");
  const LockFile first(folder / "lock", "held");
  std::filesystem::resize_file(folder / "lock", 0);
  EXPECT_EQ(message_of<IoError>([&] { LockFile second(folder / "lock", "held"); }),
            concat((folder / "lock").string(), ": another process holds it: held"));
  test::write_file(folder / "lock", "\x1b[2J\x01");
  EXPECT_EQ(message_of<IoError>([&] { LockFile second(folder / "lock", "held"); }),
            concat((folder / "lock").string(), ": another process holds it: held"));
}

}  // namespace
}  // namespace rondo
