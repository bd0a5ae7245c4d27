// Downloads from file:// and from a server on loopback: resuming, checksums, what goes wrong.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <functional>

#include "data/download.h"
#include "data/http_server.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/files.h"

namespace rondo::data {
namespace {

using test::HttpServer, test::read_file, test::TemporaryFolder, test::message_of, test::write_file;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// 300 000 bytes, more than curl returns at once.
std::string contents() {
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes += static_cast<char>((i * 7 + i / 256) % 251);
  return bytes;
}

class Download : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(scratch_ / "original", contents());
    sum_ = sha256_of(scratch_ / "original");
  }
  std::string file_url() const { return "file://" + (scratch_ / "original").string(); }
  RemoteFile remote(const std::string& url) const { return {"data", url, sum_}; }
  fs::path target() const { return scratch_ / "target"; }
  fs::path part() const { return scratch_ / "target.part"; }
  /// The target is complete, and the partial file is gone.
  void expect_arrived() {
    EXPECT_TRUE(read_file(target()) == contents());
    EXPECT_FALSE(fs::exists(part()));
  }

  TemporaryFolder scratch_;
  std::string sum_;
  test::Environment no_proxy_{"no_proxy", "*"};
};

TEST_F(Download, FromAFile) {
  download(remote(file_url()), target());
  expect_arrived();
}

TEST_F(Download, FromAServer) {
  HttpServer server(contents(), {});
  download(remote(server.url()), target());
  expect_arrived();
  EXPECT_EQ(server.requests(), (std::vector<std::size_t>{0}));
  download(remote(server.url()), target());  // it exists: no server is asked
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(Download, GoesOnWhereAnInterruptedOneStopped) {
  for (const std::size_t had : {1UL, 4096UL, 299999UL}) {
    HttpServer server(contents(), {});
    write_file(part(), contents().substr(0, had));
    download(remote(server.url()), target());
    expect_arrived();
    EXPECT_EQ(server.requests(), (std::vector<std::size_t>{had}));
    fs::remove(target());
    write_file(part(), contents().substr(0, had));
    download(remote(file_url()), target());
    expect_arrived();
    fs::remove(target());
  }
}

TEST_F(Download, AWholePartNeedsNoServer) {
  write_file(part(), contents());
  download(remote("http://127.0.0.1:1/nobody"), target());
  expect_arrived();
}

TEST_F(Download, AnOverlongPartIsThrownAway) {
  for (const std::string& url : {file_url(), std::string{}}) {
    HttpServer server(contents(), {});
    write_file(part(), contents() + "and more");
    download(remote(url.empty() ? server.url() : url), target());
    expect_arrived();
    fs::remove(target());
  }
}

TEST_F(Download, APartOfAnotherFileIsThrownAway) {
  HttpServer server(contents(), {});
  write_file(part(), std::string(1000, 'x'));
  download(remote(server.url()), target());
  expect_arrived();
  EXPECT_EQ(server.requests(), (std::vector<std::size_t>{1000, 0}));
}

TEST_F(Download, AServerWithoutRangesStartsAgain) {
  HttpServer server(contents(), {.ranges = false});
  write_file(part(), contents().substr(0, 1000));
  download(remote(server.url()), target());
  expect_arrived();
  EXPECT_EQ(server.requests(), (std::vector<std::size_t>{1000, 0}));
}

TEST_F(Download, ABrokenLineIsTakenUpAgain) {
  HttpServer server(contents(), {.hang_up_after = 70000});
  download(remote(server.url()), target());
  expect_arrived();
  EXPECT_EQ(server.requests(), (std::vector<std::size_t>{0, 70000}));
}

TEST_F(Download, AWrongChecksumLeavesNothing) {
  const std::string wrong(64, 'a');
  const std::string sentence = message_of<IoError>([&] {
    download({"data", file_url(), wrong}, target());
  });
  EXPECT_THAT(sentence, HasSubstr(file_url() + ": checksum " + sum_ + " instead of " + wrong));
  EXPECT_FALSE(fs::exists(target()));
  EXPECT_FALSE(fs::exists(part()));
}

// Eight digits, or an MD5, do not protect against other contents.
TEST_F(Download, OnlyAWholeSha256IsAChecksum) {
  for (const std::string& sum : {std::string("abc"), sum_.substr(0, 8), std::string(32, 'a'),
                                 std::string(64, 'A'), std::string()}) {
    EXPECT_THAT(message_of<Error>([&] {
                  download({"data", file_url(), sum}, target());
                }),
                HasSubstr("data: the checksum '" + sum + "' is not a SHA-256"));
  }
}

TEST_F(Download, AnotherSizeIsRefused) {
  HttpServer server(contents(), {});
  RemoteFile file = remote(server.url());
  file.bytes = 299999;
  EXPECT_EQ(
      message_of<IoError>([&] { download(file, target()); }),
      server.url() +
          ": is longer than the 299999 bytes that it should have; the download was discarded");
  file.bytes = 300001;
  EXPECT_EQ(message_of<IoError>([&] { download(file, target()); }),
            server.url() + ": has 300000 bytes instead of 300001; the download was discarded");
  EXPECT_FALSE(fs::exists(target()) || fs::exists(part()));
  file.bytes = 300000;
  write_file(part(), contents() + "and more");  // the error is known without asking a server
  download(file, target());
  expect_arrived();
  EXPECT_EQ(server.requests(), (std::vector<std::size_t>{0, 0, 0}));
}

TEST_F(Download, ATrickleIsGivenUp) {
  HttpServer server(contents(), {.trickles = true});
  EXPECT_THAT(message_of<IoError>([&] {
                download(remote(server.url()), target(), {.minimum_rate = 100'000, .patience = 1});
              }),
              HasSubstr("bytes so far are kept in"));
  EXPECT_EQ(server.requests().size(), 2U);  // the second answer is empty
  EXPECT_LT(fs::file_size(part()), 100'000U);
}

TEST_F(Download, ARedirectLeadsToHttpsOnly) {
  HttpServer real(contents(), {});
  for (const std::string& to : {real.url(), file_url()}) {
    HttpServer server(contents(), {.redirect = to});
    EXPECT_THAT(message_of<IoError>([&] { download(remote(server.url()), target()); }),
                AllOf(HasSubstr(server.url() + ": cannot be downloaded"),
                      HasSubstr("a redirect may lead to https only")));
    HttpServer elsewhere(contents(), {.redirect = "https://127.0.0.1:1/file"});
    EXPECT_THAT(message_of<IoError>([&] { download(remote(elsewhere.url()), target()); }),
                Not(HasSubstr("https only")));
  }
  EXPECT_TRUE(real.requests().empty());
  EXPECT_FALSE(fs::exists(target()));
}

TEST_F(Download, WhatOthersPlantedIsRefused) {
  write_file(scratch_ / "victim", "mine");
  for (const auto& [plant, why] : std::vector<std::pair<std::function<void()>, std::string>>{
           {[&] { fs::create_symlink(scratch_ / "victim", part()); }, "it is a symbolic link"},
           {[&] { fs::create_symlink(scratch_ / "original", part()); }, "it is a symbolic link"},
           {[&] { fs::create_hard_link(scratch_ / "victim", part()); }, "it has a second name"},
           {[&] { ASSERT_EQ(mkfifo(part().c_str(), 0600), 0); }, "it is not a regular file"}}) {
    plant();
    EXPECT_THAT(message_of<IoError>([&] { download(remote(file_url()), target()); }),
                HasSubstr(part().string() + ": cannot be written: " + why));
    EXPECT_FALSE(fs::exists(target()));
    fs::remove(part());
  }
  EXPECT_EQ(read_file(scratch_ / "victim"), "mine");
}

TEST_F(Download, RefusalsAndSilenceAreNamed) {
  HttpServer server(contents(), {.status = 404});
  EXPECT_THAT(message_of<IoError>([&] { download(remote(server.url()), target()); }),
              AllOf(HasSubstr(server.url()), HasSubstr("404")));
  EXPECT_FALSE(fs::exists(part()));
  EXPECT_THAT(message_of<IoError>([&] { download(remote("http://127.0.0.1:1/nobody"), target()); }),
              HasSubstr("http://127.0.0.1:1/nobody: cannot be downloaded"));
  EXPECT_THAT(message_of<IoError>([&] { download(remote("file:///nonexistent/file"), target()); }),
              HasSubstr("/nonexistent/file: cannot be downloaded"));
  write_file(part(), contents().substr(0, 1000));
  EXPECT_THAT(message_of<IoError>([&] { download(remote("http://127.0.0.1:1/nobody"), target()); }),
              HasSubstr("the 1000 bytes so far are kept in " + part().string()));
  EXPECT_EQ(fs::file_size(part()), 1000U);
}

TEST_F(Download, APlaceThatCannotBeWrittenIsNamed) {
  EXPECT_THAT(message_of<IoError>([&] { download(remote(file_url()), scratch_ / "no/folder"); }),
              HasSubstr("no/folder.part: cannot be written: No such file"));
  const test::SmallFiles full(100'000);
  EXPECT_THAT(message_of<IoError>([&] { download(remote(file_url()), target()); }),
              HasSubstr("target.part: cannot be written: File too large"));
}

TEST_F(Download, ProgressCountsWhatWasThere) {
  write_file(part(), contents().substr(0, 100000));
  HttpServer server(contents(), {});
  std::int64_t last = 0, total = 0;
  download(remote(server.url()), target(),
           {.progress = [&](const std::string& file, std::int64_t received, std::int64_t all) {
             EXPECT_EQ(file, "data");
             EXPECT_GE(received, 100000);
             EXPECT_GE(received, last);
             last = received;
             total = std::max(total, all);
           }});
  EXPECT_EQ(last, 300000);
  EXPECT_EQ(total, 300000);
}

TEST_F(Download, AnExceptionOfTheProgressCallbackComesOut) {
  EXPECT_THROW(download(remote(file_url()), target(),
                        {.progress = [](const std::string&, std::int64_t,
                                        std::int64_t) { throw std::logic_error("stop"); }}),
               std::logic_error);
  EXPECT_FALSE(fs::exists(target()));
}

}  // namespace
}  // namespace rondo::data
