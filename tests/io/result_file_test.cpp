// What --json FILE writes, and the files that it cannot write.

#include "io/result_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/errors.h"
#include "support/files.h"

namespace rondo {
namespace {

TEST(ResultFile, AppearsWholeAndIsCheckedBefore) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "result.json";
  io::check_result_file("--json", path);
  EXPECT_FALSE(std::filesystem::exists(path)) << "checking writes nothing";
  io::write_result_file("--json", path, "{}\n");
  EXPECT_EQ(test::read_file(path), "{}\n");
  io::check_result_file("--json", path);
  EXPECT_EQ(test::read_file(path), "{}\n");
  for (const std::string& nowhere : {std::string(), std::string("-")})
    io::check_result_file("--json", nowhere);
  io::write_result_file("--json", "", "{}");
  const std::string missing = folder / "none/result.json";
  EXPECT_ERROR(io::check_result_file("--json", missing), IoError, missing);
  EXPECT_ERROR(io::write_result_file("--json", missing, "{}"), IoError, missing);
}

TEST(ResultFile, APipeAndADeviceAreWrittenAsTheyStand) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(io::is_written_as_it_stands(pipe));
  EXPECT_TRUE(io::is_written_as_it_stands("/dev/null"));
  EXPECT_FALSE(io::is_written_as_it_stands(folder / "none"));
  io::check_result_file("--json", pipe);
  EXPECT_ERROR(io::write_result_file("--json", pipe, "{}\n"), IoError, "that nobody reads");
  const int reader = open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  io::write_result_file("--json", pipe, "{}\n");
  char heard[10] = {};
  EXPECT_EQ(read(reader, heard, sizeof heard), 3);
  EXPECT_STREQ(heard, "{}\n");
  close(reader);
  EXPECT_ERROR(io::write_result_file("--json", "/dev/full", "{}"), IoError,
               "--json /dev/full: cannot be written");
}

}  // namespace
}  // namespace rondo
