// AtomicFile: a file is written completely or not at all, whatever goes wrong and when.

#include "io/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/errors.h"
#include "support/files.h"

namespace rondo {
namespace {

using io::AtomicFile;
using test::message_of;
using ::testing::HasSubstr;

TEST(AtomicFile, FollowsLinksAndRefusesWhatIsNoFile) {
  test::TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "target", folder / "link");
  for (std::string text : {"first", "second"}) {  // a dangling link, then a link to a file
    AtomicFile file(folder / "link");
    file.write(text.data(), text.size());
    file.commit();
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
    EXPECT_EQ(test::read_file(folder / "target"), text);
  }
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<IoError>([&] { AtomicFile file(folder / "pipe"); }),
              HasSubstr("pipe: it is not a regular file"));
  std::filesystem::create_symlink("ring", folder / "ring");
  EXPECT_THAT(message_of<IoError>([&] { AtomicFile file(folder / "ring"); }),
              HasSubstr("ring: its symbolic links form a loop"));
  // As for /dev/stdout, a file would be replaced that the process still writes to.
  test::write_file(folder / "log", "a line");
  const int log = ::open((folder / "log").c_str(), O_WRONLY);
  for (const char* descriptors : {"/proc/self/fd/", "/dev/fd/"})
    EXPECT_THAT(message_of<IoError>([&] { AtomicFile file(concat(descriptors, log)); }),
                HasSubstr("it is a file that this process has open"));
  ::close(log);
  EXPECT_EQ(test::read_file(folder / "log"), "a line");
}

TEST(AtomicFile, AppearsWhenCommitted) {
  test::TemporaryFolder folder;
  std::string path = folder / "a";
  AtomicFile file(path);
  file.write("hello", 5);
  file.write(" there", 6);
  file.write_at(0, "J", 1);
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
  EXPECT_EQ(test::read_file(path), "Jello there");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFile, LeavesTheOldFileWhenAbandoned) {
  test::TemporaryFolder folder;
  std::string path = folder / "a";
  test::write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("new", 3);
  }
  EXPECT_EQ(test::read_file(path), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFile, LeavesTheOldFileWhenKilled) {
  test::TemporaryFolder folder;
  std::string path = folder / "a";
  test::write_file(path, "old");
  pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(path);
    file.write("something longer", 16);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(test::read_file(path), "old");
  AtomicFile file(path);
  file.write("new", 3);
  file.commit();
  EXPECT_EQ(test::read_file(path), "new");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFile, LeavesTheOldFileWhenTheDiskIsFull) {
  test::TemporaryFolder folder;
  std::string path = folder / "a";
  test::write_file(path, "old");
  const std::string message = message_of<IoError>([&] {
    const test::SmallFiles disk(4096);
    AtomicFile file(path);
    std::string block(3000, 'x');
    for (int i = 0; i < 3; ++i) file.write(block.data(), block.size());
    file.commit();
  });
  EXPECT_THAT(message, HasSubstr("cannot write " + path));
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_EQ(test::read_file(path), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFile, SaysWhyItCannotBegin) {
  test::TemporaryFolder folder;
  EXPECT_THAT(message_of<IoError>([&] { AtomicFile file(folder / "none/a"); }),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(message_of<IoError>([&] { AtomicFile file(folder.path()); }),
              HasSubstr("it is a directory"));
}

TEST(AtomicFile, TheLastToCommitWins) {
  test::TemporaryFolder folder;
  AtomicFile first(folder / "a"), second(folder / "a");
  first.write("first", 5);
  second.write("second", 6);
  second.commit();
  first.commit();
  EXPECT_EQ(test::read_file(folder / "a"), "first");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFile, AnotherUsersLinkInASharedFolderIsNotFollowed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  const test::TemporaryFolder folder, home;
  test::write_file(home / "victim", "mine");
  std::filesystem::create_symlink(home / "victim", folder / "link");
  ASSERT_EQ(::lchown((folder / "link").c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  EXPECT_THAT(message_of<IoError>([&] { AtomicFile file(folder / "link"); }),
              HasSubstr("link: it is a symbolic link of another user"));
  ASSERT_EQ(::lchown((folder / "link").c_str(), 0, 0), 0);
  AtomicFile file(folder / "link");
  file.write("new", 3);
  file.commit();
  EXPECT_EQ(test::read_file(home / "victim"), "new");
}

// Another user may create a file where a temporary file is expected: AtomicFile must not open it.
TEST(AtomicFile, LeavesPlantedFilesAlone) {
  test::TemporaryFolder folder;
  test::write_file(folder / "victim", "mine");
  std::filesystem::create_symlink(folder / "victim", folder / "a.tmp");
  test::write_file(folder / "page.html.tmp", "the user's own");
  ASSERT_EQ(mkfifo((folder / "b.tmp").c_str(), 0600), 0);
  for (const char* name : {"a", "b", "page.html"}) {
    AtomicFile file(folder / name);
    file.write("new", 3);
    file.commit();
    EXPECT_EQ(test::read_file(folder / name), "new");
  }
  EXPECT_EQ(test::read_file(folder / "victim"), "mine");
  EXPECT_EQ(test::read_file(folder / "page.html.tmp"), "the user's own");
}

}  // namespace
}  // namespace rondo
