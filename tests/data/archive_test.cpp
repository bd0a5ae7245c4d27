// Unpacks valid, damaged and malicious archives; compares checksums with published values.

#include <gmock/gmock.h>

#include <tuple>

#include "data/download.h"
#include "data/tar.h"
#include "support/errors.h"
#include "support/files.h"

namespace rondo::data {
namespace {

using test::read_file, test::TemporaryFolder, test::message_of, test::write_file,
    test::write_tar_gz;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Checksum, PublishedValues) {  // FIPS 180-2
  TemporaryFolder scratch;
  write_file(scratch / "empty", "");
  write_file(scratch / "abc", "abc");
  EXPECT_EQ(sha256_of(scratch / "empty"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of(scratch / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  write_file(scratch / "million", std::string(1000000, 'a'));
  EXPECT_EQ(sha256_of(scratch / "million"),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THROW(sha256_of(scratch / "nowhere"), IoError);
}

TEST(Unpack, FilesAndFolders) {
  TemporaryFolder scratch;
  const std::string large(200000, 'x');
  write_tar_gz(scratch / "a.tar.gz", {{.path = "set/", .type = AE_IFDIR},
                                      {"set/one", "1"},
                                      {"set/deep/./two", large},
                                      {"empty", ""}});
  unpack(scratch / "a.tar.gz", scratch / "into");
  EXPECT_EQ(read_file(scratch / "into/set/one"), "1");
  EXPECT_EQ(read_file(scratch / "into/set/deep/two"), large);
  EXPECT_EQ(fs::file_size(scratch / "into/empty"), 0U);
}

TEST(Unpack, EntriesThatWouldLeaveTheFolderAreRefused) {
  TemporaryFolder scratch;
  for (const std::string& path : {(scratch / "outside").string(), std::string("../outside"),
                                  std::string("set/../../outside"), std::string("./../outside")}) {
    write_tar_gz(scratch / "a.tar.gz", {{path, "gotcha"}});
    EXPECT_THAT(message_of<IoError>([&] { unpack(scratch / "a.tar.gz", scratch / "into"); }),
                HasSubstr("outside of the folder"))
        << path;
    EXPECT_FALSE(fs::exists(scratch / "outside"));
  }
}

// A few bytes may unpack to gigabytes, or to a million empty files.
TEST(Unpack, MoreThanIsExpectedIsRefused) {
  TemporaryFolder scratch;
  const fs::path archive = scratch / "a.tar.gz";
  write_tar_gz(archive, {{"set/small", "1"}, {"set/large", std::string(1 << 20, '\0')}});
  EXPECT_LT(fs::file_size(archive), 10'000U);
  EXPECT_THAT(
      message_of<IoError>([&] { unpack(archive, scratch / "into", 100'000); }),
      AllOf(HasSubstr("a.tar.gz: unpacks to more than the 100000 bytes"), HasSubstr("set/large")));
  EXPECT_LE(fs::file_size(scratch / "into/set/large"), 100'000U);
  unpack(archive, scratch / "into", 1 << 21);
  EXPECT_EQ(fs::file_size(scratch / "into/set/large"), 1U << 20);

  std::vector<test::TarEntry> many;
  for (int i = 0; i < 50; ++i) many.push_back({.path = concat("set/", i)});
  write_tar_gz(archive, many);
  EXPECT_THAT(message_of<IoError>([&] { unpack(archive, scratch / "into", 100'000); }),
              HasSubstr("unpacks to more than the 100000 bytes"));
}

// GNU's sparse format names the size of a hole, which takes no bytes in the archive.
TEST(Unpack, AHoleCountsAsItsBytes) {
  TemporaryFolder scratch;
  std::string header(512, '\0');
  auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, "set/hole");
  put(100, "0000644");
  put(124, "00000000001");  // bytes in the archive
  put(156, "S");
  put(257, "ustar  ");
  put(386, "77777777776");  // one piece of one byte, at the end
  put(398, "00000000001");
  put(483, "77777777777");  // bytes of the file: 8 GiB
  put(148, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  put(148, digits);
  write_file(scratch / "a.tar", header + std::string(3 * 512, '\0'));
  EXPECT_THAT(message_of<IoError>([&] { unpack(scratch / "a.tar", scratch / "into", 100'000); }),
              HasSubstr("unpacks to more than the 100000 bytes"));
}

TEST(Unpack, LinksThatWaitInTheFolderAreNotFollowed) {
  TemporaryFolder scratch;
  write_file(scratch / "victim", "untouched");
  fs::create_directories(scratch / "into/set");
  fs::create_symlink(scratch / "victim", scratch / "into/set/one");
  write_tar_gz(scratch / "a.tar.gz", {{"set/one", "gotcha"}});
  EXPECT_THAT(message_of<IoError>([&] { unpack(scratch / "a.tar.gz", scratch / "into"); }),
              HasSubstr("set/one: cannot be written: it is a symbolic link"));
  EXPECT_EQ(read_file(scratch / "victim"), "untouched");
}

TEST(Unpack, LinksAndDevicesAreRefused) {
  TemporaryFolder scratch;
  write_file(scratch / "secret", "untouched");
  const std::vector<std::vector<test::TarEntry>> archives{
      {{.path = "way", .type = AE_IFLNK, .link = "../"}, {"way/secret", "gotcha"}},
      {{.path = "way", .type = AE_IFREG, .link = "../secret"}},
      {{.path = "pipe", .type = AE_IFIFO}}};
  for (const auto& entries : archives) {
    write_tar_gz(scratch / "a.tar.gz", entries);
    EXPECT_THAT(message_of<IoError>([&] { unpack(scratch / "a.tar.gz", scratch / "into"); }),
                HasSubstr("is neither a file nor a folder"));
  }
  EXPECT_EQ(read_file(scratch / "secret"), "untouched");
}

TEST(Unpack, EveryTruncationIsNoticed) {
  TemporaryFolder scratch;
  std::string noise;
  for (int i = 0; i < 3000; ++i) noise += static_cast<char>(i * i * 31 >> 3);
  write_tar_gz(scratch / "whole.tar.gz", {{"set/one", noise}});
  const std::string whole = read_file(scratch / "whole.tar.gz");
  for (std::size_t size = 0; size < whole.size() - 8; size += 37) {  // 8: gzip's own checksum
    write_file(scratch / "a.tar.gz", whole.substr(0, size));
    EXPECT_THROW(unpack(scratch / "a.tar.gz", scratch / "into"), IoError)
        << size << " of " << whole.size();
  }
}

TEST(Unpack, OnlyGzipAndBzip2AreUnpacked) {  // xz: a few bytes may request gigabytes of memory
  TemporaryFolder scratch;
  write_tar_gz(scratch / "a.tar.gz", {{"set/one", "1"}});
  archive* in = archive_read_new();
  archive_read_support_filter_gzip(in);
  archive_read_support_format_raw(in);
  archive_read_open_filename(in, (scratch / "a.tar.gz").c_str(), 1 << 16);
  archive_entry* entry = nullptr;
  archive_read_next_header(in, &entry);
  std::string tar(1 << 16, '\0');
  tar.resize(static_cast<std::size_t>(archive_read_data(in, tar.data(), tar.size())));
  archive_read_free(in);
  for (const auto& [name, add, fine] :
       {std::tuple{"a.tar.bz2", &archive_write_add_filter_bzip2, true},
        std::tuple{"a.tar.xz", &archive_write_add_filter_xz, false}}) {
    archive* out = archive_write_new();
    add(out);
    archive_write_set_format_raw(out);
    archive_write_open_filename(out, (scratch / name).c_str());
    entry = archive_entry_new();
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_write_header(out, entry);
    archive_write_data(out, tar.data(), tar.size());
    archive_entry_free(entry);
    archive_write_free(out);
    const std::string said =
        message_of<IoError>([&, &name = name] { unpack(scratch / name, scratch / "into"); });
    EXPECT_EQ(said.empty(), fine) << name << ": " << said;
  }
  EXPECT_EQ(read_file(scratch / "into" / "set" / "one"), "1");
}

TEST(Unpack, WhatIsNoArchiveIsNamed) {
  TemporaryFolder scratch;
  write_file(scratch / "a.tar.gz", "<html>moved</html>");
  EXPECT_THAT(message_of<IoError>([&] { unpack(scratch / "a.tar.gz", scratch / "into"); }),
              HasSubstr("a.tar.gz: not an archive"));
  EXPECT_THAT(message_of<IoError>([&] { unpack(scratch / "nowhere", scratch / "into"); }),
              HasSubstr("nowhere: no such file"));
  write_tar_gz(scratch / "a.tar.gz", {{"set/one", "1"}});
  write_file(scratch / "file", "");
  EXPECT_THAT(message_of<IoError>([&] { unpack(scratch / "a.tar.gz", scratch / "file"); }),
              HasSubstr("cannot be created"));
}

}  // namespace
}  // namespace rondo::data
