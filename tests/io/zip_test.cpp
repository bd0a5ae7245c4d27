// Archives: written files are read back, and damaged ones are refused.

#include "io/zip.h"

#include <gmock/gmock.h>

#include <span>

#include "support/errors.h"
#include "support/files.h"
#include "support/zip64.h"

namespace rondo {
namespace {

using ::testing::HasSubstr;

/// The only file in an archive.
std::string only_file(const std::string& archive, std::size_t bytes) {
  io::ZipReader zip(std::as_bytes(std::span(archive)), "a.zip");
  std::string name;
  if (!zip.next(name)) throw Error("no file");
  std::string contents(bytes, '?');
  zip.read(contents.data(), bytes);
  return name + ": " + contents;
}

TEST(Zip, WritesWhatItReads) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "a.zip").string();
  {
    io::AtomicFile out(path);
    io::ZipWriter zip(out);
    zip.add("folder/caf\xc3\xa9", "contents", 8);
    zip.finish();
    out.commit();
  }
  const std::string archive = test::read_file(path);
  EXPECT_EQ(only_file(archive, 8), "folder/caf\xc3\xa9: contents");
  EXPECT_THAT(test::message_of<IoError>([&] { only_file(archive, 9); }),
              HasSubstr("has 8 bytes, but 9 are needed"));
  EXPECT_THAT(test::message_of<IoError>([&] { only_file(archive, 7); }),
              HasSubstr("has more than the 7 bytes"));
  std::string damaged = archive;
  damaged[damaged.find("contents")] = 'C';
  EXPECT_THAT(test::message_of<IoError>([&] { only_file(damaged, 8); }),
              HasSubstr("a.zip: damaged or cut short in folder/caf"));
}

TEST(Zip, ReadsSizesOf64Bits) {
  const std::string contents(1000, '\0');
  const auto [head, tail] = test::zip64_around("zeros", 1000, test::crc_of_zeros(1000));
  EXPECT_EQ(only_file(head + contents + tail, 1000), "zeros: " + contents);
  const auto [other_head, other_tail] = test::zip64_around("zeros", 1000, 12345);
  EXPECT_THAT(test::message_of<IoError>([&, &head = other_head, &tail = other_tail] {
                only_file(head + contents + tail, 1000);
              }),
              HasSubstr("damaged or cut short in zeros"));
}

}  // namespace
}  // namespace rondo
