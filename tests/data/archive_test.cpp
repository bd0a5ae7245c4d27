// Unpacking honest, damaged and malicious archives; checksums against published values.

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

TEST(Checksum, PublishedValues) {  // RFC 1321 and FIPS 180-2
  TemporaryFolder scratch;
  const std::string md5(32, '0'), sha256(64, '0');
  write_file(scratch / "empty", "");
  write_file(scratch / "abc", "abc");
  EXPECT_EQ(checksum_of(scratch / "empty", md5), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(checksum_of(scratch / "abc", md5), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(checksum_of(scratch / "abc", sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  write_file(scratch / "million", std::string(1000000, 'a'));
  EXPECT_EQ(checksum_of(scratch / "million", sha256),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THROW(checksum_of(scratch / "nowhere", md5), IoError);
  EXPECT_THROW(checksum_of(scratch / "abc", "12"), Error);
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

TEST(Unpack, OnlyGzipAndBzip2AreUnpacked) {  // xz: a few bytes may ask for gigabytes
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
    const std::string said = message_of<IoError>([&] { unpack(scratch / name, scratch / "into"); });
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
