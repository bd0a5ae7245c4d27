// Files whose names others can guess: what may already exist there, and how it is treated.

#include "tensor/own_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "support/errors.h"
#include "support/files.h"

namespace rondo {
namespace {

using test::message_of;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using enum OwnFile::Mode;

TEST(OwnFile, AppendsReplacesAndCreates) {
  const test::TemporaryFolder folder;
  OwnFile(folder / "log", append).write("one ");
  OwnFile(folder / "log", append).write("two");
  EXPECT_EQ(test::read_file(folder / "log"), "one two");
  OwnFile moved = OwnFile(folder / "log", replace);
  moved.write("new");
  OwnFile(std::move(moved)).write("er");
  EXPECT_EQ(test::read_file(folder / "log"), "newer");
  OwnFile(folder / "fresh", create, 0600).write("x");
  struct stat made {};
  ASSERT_EQ(::stat((folder / "fresh").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600);
  EXPECT_THAT(message_of<IoError>([&] { OwnFile(folder / "fresh", create); }),
              HasSubstr("fresh: cannot be written: File exists"));
  EXPECT_THAT(message_of<IoError>([&] { OwnFile(folder / "none/log", append); }),
              HasSubstr("none/log: cannot be written: No such file"));
  const test::SmallFiles small(1000);
  EXPECT_THAT(
      message_of<IoError>([&] { OwnFile(folder / "big", append).write(std::string(2000, 'x')); }),
      HasSubstr("big: cannot be written: File too large"));
}

TEST(OwnFile, RefusesWhatOthersMayHavePlanted) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "victim", "mine");
  fs::create_symlink(folder / "victim", folder / "link");
  fs::create_symlink(folder / "nothing", folder / "dangling");
  fs::create_hard_link(folder / "victim", folder / "second_name");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const auto mode : {append, replace, create}) {
    for (const auto& [name, why] : {std::pair("link", "it is a symbolic link"),
                                    std::pair("dangling", "it is a symbolic link"),
                                    std::pair("second_name", "it has a second name (a hard link)"),
                                    std::pair("pipe", "it is not a regular file")}) {
      EXPECT_THAT(
          message_of<IoError>([&, file = folder / name] { OwnFile(file, mode).write("theirs"); }),
          HasSubstr(concat(name, ": cannot be written: ", mode == create ? "File exists" : why)));
    }
  }
  EXPECT_EQ(test::read_file(folder / "victim"), "mine");
  EXPECT_FALSE(fs::exists(folder / "nothing"));
}

TEST(OwnFile, RefusesAnotherUsersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const test::TemporaryFolder folder;
  test::write_file(folder / "theirs", "");
  ASSERT_EQ(::chown((folder / "theirs").c_str(), 12345, 12345), 0);
  EXPECT_THAT(message_of<IoError>([&] { OwnFile(folder / "theirs", append); }),
              HasSubstr("theirs: cannot be written: it belongs to another user"));
  fs::create_directory(folder / "folder");
  ASSERT_EQ(::chown((folder / "folder").c_str(), 12345, 12345), 0);
  EXPECT_THAT(message_of<IoError>([&] { make_own_folder(folder / "folder"); }),
              HasSubstr("is not a folder of this user"));
}

TEST(OwnFolder, IsMadeOrTakenButNeverALink) {
  const test::TemporaryFolder folder;
  make_own_folder(folder / "a");
  make_own_folder(folder / "a");
  EXPECT_TRUE(fs::is_directory(folder / "a"));
  fs::create_directory_symlink(folder / "a", folder / "link");
  test::write_file(folder / "file", "");
  for (const char* name : {"link", "file"})
    EXPECT_THAT(message_of<IoError>([&] { make_own_folder(folder / name); }),
                HasSubstr(concat(name, ": exists, but is not a folder of this user")));
  EXPECT_THAT(message_of<IoError>([&] { make_own_folder(folder / "none/a"); }),
              HasSubstr("none/a: cannot be created: No such file"));
}

TEST(TemporaryName, CannotBeGuessed) { EXPECT_NE(temporary_name("a"), temporary_name("a")); }

}  // namespace
}  // namespace rondo
