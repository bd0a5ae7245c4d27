// Where rondo looks for data sets, and how it downloads them to the cache, from file:// mirrors
// made here.

#include "data/download.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <map>
#include <thread>

#include "data/tar.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/files.h"

namespace rondo::data {
namespace {

using test::Environment, test::read_file, test::TemporaryFolder, test::message_of, test::write_file,
    test::write_tar_gz;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// A mirror with one archive, and a cache to fill from it.
class Obtain : public ::testing::Test {
 protected:
  void SetUp() override {
    write_tar_gz(scratch_ / "set.tar.gz",
                 {{.path = "set", .type = AE_IFDIR}, {"set/a", "1"}, {"set/b", "2"}});
    set_ = {"numbers", "set", true, {remote("set.tar.gz")}};
  }
  RemoteFile remote(const std::string& name) const {
    const fs::path file = scratch_ / name;
    return {name, "file://" + file.string(), sha256_of(file)};
  }
  /// The cache contains only the set and the lock files.
  std::vector<std::string> visible() const {
    std::vector<std::string> names;
    if (!fs::exists(cache_)) return names;
    for (const auto& entry : fs::directory_iterator(cache_)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".lock")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder scratch_;
  fs::path cache_ = scratch_ / "new/cache";
  RemoteDataset set_;
};

TEST_F(Obtain, AnArchiveBecomesAFolder) {
  EXPECT_EQ(obtain(set_, cache_), cache_ / "set");
  EXPECT_EQ(read_file(cache_ / "set/a") + read_file(cache_ / "set/b"), "12");
  EXPECT_EQ(visible(), (std::vector<std::string>{"set"}));
  fs::remove(scratch_ / "set.tar.gz");
  EXPECT_EQ(obtain(set_, cache_), cache_ / "set");  // the set exists: no server is asked
}

TEST_F(Obtain, FilesBecomeAFolder) {
  write_file(scratch_ / "x.gz", "xx");
  write_file(scratch_ / "y.gz", "yyy");
  RemoteDataset set{"letters", "LETTERS/raw", false, {remote("x.gz"), remote("y.gz")}};
  // The second file fails at first; the first one is not downloaded again.
  const std::string good = std::exchange(set.files[1].checksum, std::string(64, '0'));
  EXPECT_THROW(obtain(set, cache_), IoError);
  EXPECT_FALSE(fs::exists(cache_ / "LETTERS"));
  set.files[1].checksum = good;
  fs::remove(scratch_ / "x.gz");
  EXPECT_EQ(obtain(set, cache_), cache_ / "LETTERS/raw");
  EXPECT_EQ(read_file(cache_ / "LETTERS/raw/x.gz") + read_file(cache_ / "LETTERS/raw/y.gz"),
            "xxyyy");
  EXPECT_EQ(visible(), (std::vector<std::string>{"LETTERS"}));
}

TEST_F(Obtain, AFailureLeavesNoSet) {
  char& digit = set_.files[0].checksum[0];
  digit = digit == '0' ? '1' : '0';
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, cache_); }), HasSubstr("checksum"));
  EXPECT_TRUE(visible().empty());
  EXPECT_FALSE(fs::exists(cache_.parent_path()));  // nor an empty folder

  const std::string whole = read_file(scratch_ / "set.tar.gz");
  write_file(scratch_ / "set.tar.gz", whole.substr(0, whole.size() / 2));
  set_.files[0] = remote("set.tar.gz");  // the server's own file is truncated
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, cache_); }), HasSubstr("set.tar.gz: "));
  EXPECT_FALSE(fs::exists(cache_ / "set"));
  EXPECT_FALSE(fs::exists(cache_ / ".numbers.unpacking"));

  write_tar_gz(scratch_ / "set.tar.gz", {{"other/a", "1"}});
  set_.files[0] = remote("set.tar.gz");
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, cache_); }),
              HasSubstr("contains no folder set"));
  EXPECT_FALSE(fs::exists(cache_ / "set"));
}

TEST_F(Obtain, AFailureLeavesNoEmptyFolder) {
  RemoteDataset files = {"numbers", "weights/numbers", false, {remote("set.tar.gz")}};
  files.files[0].url += ".none";
  EXPECT_THAT(message_of<IoError>([&] { obtain(files, cache_); }), HasSubstr("cannot be down"));
  EXPECT_FALSE(fs::exists(cache_.parent_path()));
  fs::create_directories(cache_);  // the user's
  EXPECT_THROW(obtain(files, cache_), IoError);
  EXPECT_TRUE(fs::is_empty(cache_));
}

TEST_F(Obtain, WhatAKilledProcessLeftDoesNotMatter) {
  write_file(cache_ / ".numbers.unpacking/set/stale", "x");
  write_file(cache_ / "set.tar.gz.part", read_file(scratch_ / "set.tar.gz").substr(0, 20));
  write_file(cache_ / ".numbers.lock", "");
  obtain(set_, cache_);
  EXPECT_FALSE(fs::exists(cache_ / "set/stale"));
  EXPECT_EQ(read_file(cache_ / "set/a"), "1");
  EXPECT_EQ(visible(), (std::vector<std::string>{"set"}));
}

TEST_F(Obtain, LinksInThePlaceOfItsFoldersAreNotFollowed) {
  write_file(scratch_ / "victim/set/a", "mine");
  fs::create_directories(cache_);
  fs::create_directory_symlink(scratch_ / "victim", cache_ / ".numbers.unpacking");
  obtain(set_, cache_);
  EXPECT_EQ(read_file(cache_ / "set/a"), "1");
  write_file(scratch_ / "x.gz", "xx");
  const RemoteDataset letters{"letters", "LETTERS/raw", false, {remote("x.gz")}};
  fs::create_directory_symlink(scratch_ / "victim", cache_ / ".letters.files");
  EXPECT_THAT(message_of<IoError>([&] { obtain(letters, cache_); }),
              HasSubstr(".letters.files: exists, but is not a folder of this user"));
  EXPECT_FALSE(fs::exists(scratch_ / "victim/x.gz"));
  EXPECT_EQ(read_file(scratch_ / "victim/set/a"), "mine");
}

TEST_F(Obtain, APlantedLockIsRefused) {
  write_file(scratch_ / "victim", "mine");
  fs::create_directories(cache_);
  fs::create_symlink(scratch_ / "victim", cache_ / ".numbers.lock");
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, cache_); }),
              HasSubstr(".numbers.lock: cannot be written: it is a symbolic link"));
  fs::remove(cache_ / ".numbers.lock");
  ASSERT_EQ(mkfifo((cache_ / ".numbers.lock").c_str(), 0600), 0);
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, cache_); }),
              HasSubstr(".numbers.lock: cannot be written: it is not a regular file"));
  EXPECT_EQ(read_file(scratch_ / "victim"), "mine");
}

TEST_F(Obtain, AnArchiveThatUnpacksToTooMuchIsRefused) {
  set_.unpacked_bytes = 8191;  // the folder and two files count as 4 KiB each
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, cache_); }),
              HasSubstr("set.tar.gz: unpacks to more than the 8191 bytes"));
  EXPECT_FALSE(fs::exists(cache_ / "set") || fs::exists(cache_ / ".numbers.unpacking"));
}

TEST_F(Obtain, AFolderThatCannotBeMadeIsNamed) {
  write_file(scratch_ / "file", "");
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, scratch_ / "file/cache"); }),
              HasSubstr("file/cache: cannot be created"));
}

TEST_F(Obtain, OneOfManyThreadsDownloads) {
  std::atomic<int> downloads{0};
  DownloadOptions options;
  options.progress = [&](const std::string&, std::int64_t received, std::int64_t) {
    thread_local bool counted = false;
    if (received == 0 || counted) return;
    counted = true;
    ++downloads;
    // Gives the other threads time to get here, if no lock held them back.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  std::barrier start(6);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      EXPECT_NO_THROW(EXPECT_EQ(obtain(set_, cache_, options), cache_ / "set"));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(downloads, 1);
  EXPECT_EQ(read_file(cache_ / "set/b"), "2");
}

TEST_F(Obtain, OneOfManyProcessesDownloads) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    std::fflush(nullptr);  // or the children would write the buffer again
    const pid_t child = fork();
    if (child == 0) {
      int status = 1;
      try {
        status = read_file(obtain(set_, cache_) + "/a") == "1" ? 0 : 2;
      } catch (...) {
      }
      _exit(status);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(visible(), (std::vector<std::string>{"set"}));
}

/// An environment in which no data set is found and the mirror is an empty folder.
class Find : public ::testing::Test {
 protected:
  TemporaryFolder scratch_;
  fs::path root_ = scratch_ / "cache/rondo", cache_ = root_ / "datasets";
  Environment data_{"RONDO_DATA", nullptr};
  Environment cache_home_{"XDG_CACHE_HOME", (scratch_ / "cache").c_str()};
  Environment mirror_{"RONDO_MIRROR", ("file://" + (scratch_ / "mirror").string()).c_str()};
};

TEST_F(Find, TheNamedFolderThenTheEnvironmentElseTheUsersCache) {
  write_file(cache_ / "cifar-10-batches-bin/test_batch.bin", "cache");
  EXPECT_EQ(find_or_download("cifar10"), cache_ / "cifar-10-batches-bin");
  write_file(scratch_ / "env/cifar-10-batches-bin/data_batch_1.bin", "env");
  const Environment data("RONDO_DATA", (scratch_ / "env").c_str());
  EXPECT_EQ(find_or_download("cifar10"), scratch_ / "env/cifar-10-batches-bin");
  write_file(scratch_ / "flag/test_batch.bin", "flag");
  EXPECT_EQ(find_or_download("cifar10", {.data_dir = scratch_ / "flag"}), scratch_ / "flag");
}

TEST_F(Find, FilesThatTwoSetsShareAreTakenFromANamedFolderOnly) {
  const Environment data("RONDO_DATA", (scratch_ / "digits").c_str());
  write_file(scratch_ / "digits/train-images-idx3-ubyte", "digits, not clothes");
  write_file(scratch_ / "digits/FashionMNIST/raw/train-images-idx3-ubyte", "clothes");
  EXPECT_EQ(find_or_download("fashion_mnist"), scratch_ / "digits/FashionMNIST/raw");
  EXPECT_EQ(find_or_download("mnist", {.data_dir = scratch_ / "digits"}), scratch_ / "digits");
  write_file(scratch_ / "cifar/data_batch_1.bin", "x");
  const Environment cifar("RONDO_DATA", (scratch_ / "cifar").c_str());
  EXPECT_EQ(find_or_download("cifar10"), scratch_ / "cifar");
}

TEST_F(Find, MissingFilesAreNamed) {
  write_file(scratch_ / "cifar/test.bin", "x");
  EXPECT_EQ(missing_files(remote_dataset("cifar100"), scratch_ / "cifar"),
            (std::vector<std::string>{"train.bin"}));
  write_file(scratch_ / "mnist/train-images-idx3-ubyte", "unpacked");
  write_file(scratch_ / "mnist/train-labels-idx1-ubyte.gz", "packed");
  EXPECT_EQ(missing_files(remote_dataset("mnist"), scratch_ / "mnist"),
            (std::vector<std::string>{"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}));
}

// One variable sets the location of everything: rondo reads and writes nothing elsewhere.
TEST_F(Find, OneVariableStandsForTheCache) {
  const fs::path folder = scratch_ / "shared";
  const Environment data("RONDO_DATA", folder.c_str()), home("HOME", nullptr);
  EXPECT_EQ(cache_dir(), folder);
  write_file(cache_ / "cifar-100-binary/test.bin", "x");
  EXPECT_EQ(find_dataset("cifar100"), "");
  write_file(folder / "datasets/cifar-100-binary/test.bin", "as rondo-data puts it there");
  EXPECT_EQ(find_dataset("cifar100"), folder / "datasets/cifar-100-binary");
  EXPECT_EQ(find_or_download("cifar100"), folder / "datasets/cifar-100-binary");
  EXPECT_EQ(find_or_download("cifar100", {.data_dir = folder}),
            folder / "datasets/cifar-100-binary");
  fs::create_directories(scratch_ / "mirror");
  write_tar_gz(scratch_ / "mirror/cifar-10-binary.tar.gz",
               {{"cifar-10-batches-bin/test_batch.bin", "x"}});
  EXPECT_THROW(find_or_download("cifar10"), IoError);  // a different size
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1) << "the datasets/ of this test";
}

TEST_F(Find, ANamedFolderWithoutTheSetIsAnError) {
  write_file(cache_ / "MNIST/raw/t10k-images-idx3-ubyte.gz", "x");
  fs::create_directories(scratch_ / "flag");
  EXPECT_THAT(
      message_of<IoError>([&] { find_or_download("mnist", {.data_dir = scratch_ / "flag"}); }),
      HasSubstr((scratch_ / "flag").string() + ": holds no mnist"));
  EXPECT_THAT(
      message_of<IoError>([&] { find_or_download("mnist", {.data_dir = scratch_ / "nowhere"}); }),
      HasSubstr("nowhere: no such folder"));
  EXPECT_EQ(find_or_download("mnist"), cache_ / "MNIST/raw");
}

TEST_F(Find, DownloadsFromTheMirrorAndComparesTheOfficialSize) {
  write_tar_gz(scratch_ / "cifar-10-binary.tar.gz", {{"cifar-10-batches-bin/test_batch.bin", "x"}});
  fs::create_directories(scratch_ / "mirror");
  fs::rename(scratch_ / "cifar-10-binary.tar.gz", scratch_ / "mirror/cifar-10-binary.tar.gz");
  EXPECT_THAT(message_of<IoError>([&] { find_or_download("cifar10"); }),
              AllOf(HasSubstr("bytes instead of 170052171"), HasSubstr("--data")));
  EXPECT_FALSE(fs::exists(cache_ / "cifar-10-batches-bin"));
}

TEST_F(Find, NobodyAnswers) {
  const Environment mirror("RONDO_MIRROR", "http://127.0.0.1:1"), proxy("no_proxy", "*");
  EXPECT_THAT(message_of<IoError>([&] { find_or_download("cifar100"); }),
              AllOf(HasSubstr("http://127.0.0.1:1/cifar-100-binary.tar.gz: cannot be downloaded"),
                    HasSubstr(root_.string())));
  EXPECT_THAT(message_of<IoError>([&] { find_or_download("cifar100", {.allow_download = false}); }),
              HasSubstr("cifar100 is not in " + root_.string()));
}

TEST_F(Find, WithoutANetworkItSaysWhatToRunWhere) {
  const Environment mirror("RONDO_MIRROR", "http://127.0.0.1:1"), proxy("no_proxy", "*");
  for (const std::string name : {"cifar10", "cifar100", "mnist", "fashion_mnist"}) {
    if (name == "fashion_mnist" && fs::exists("/usr/share/datasets/fashion-mnist")) continue;
    const std::string hint = concat(
        "; on a machine with a network run `rondo-data get ", name, " --to ", root_.string(),
        "`, and copy that folder here if the machines do not share it; or ",
        "set RONDO_DATA, or data_dir (--data DIR in the examples), to a folder that holds ", name);
    for (const bool allowed : {true, false}) {
      EXPECT_THAT(message_of<IoError>([&] { find_or_download(name, {.allow_download = allowed}); }),
                  HasSubstr(hint));
    }
  }
  write_file(cache_ / "MNIST/raw/train-images-idx3-ubyte.gz", "by hand");
  EXPECT_EQ(find_or_download("mnist"), cache_ / "MNIST/raw");
  EXPECT_THAT(without_network(remote_dataset("mnist"), "my sets"), HasSubstr("--to 'my sets'`"));
}

TEST_F(Obtain, OtherSetsAreGotByHand) {
  fs::remove(scratch_ / "set.tar.gz");
  EXPECT_THAT(message_of<IoError>([&] { obtain(set_, cache_); }),
              HasSubstr(concat("; put set.tar.gz from file://", scratch_.path().string(), "/ into ",
                               cache_.string())));
}

TEST_F(Obtain, AnArchivePutThereByHandNeedsNoServer) {
  write_file(cache_ / "set.tar.gz", read_file(scratch_ / "set.tar.gz"));
  fs::remove(scratch_ / "set.tar.gz");
  EXPECT_EQ(read_file(obtain(set_, cache_) + "/a"), "1");
}

TEST_F(Find, UnknownNamesAndHomelessUsers) {
  EXPECT_THAT(message_of<Error>([] { find_or_download("imagenet"); }),
              AllOf(HasSubstr("imagenet"), HasSubstr("fashion_mnist")));
  const Environment cache("XDG_CACHE_HOME", nullptr), home("HOME", "/home/somebody");
  EXPECT_EQ(cache_dir(), "/home/somebody/.cache/rondo");
  const Environment homeless("HOME", nullptr);
  EXPECT_THAT(message_of<IoError>([] { cache_dir(); }), HasSubstr("HOME"));
}

TEST_F(Find, FashionMnistFromThePackage) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  }
  EXPECT_EQ(find_or_download("fashion_mnist"), "/usr/share/datasets/fashion-mnist");
  write_file(cache_ / "FashionMNIST/raw/train-images-idx3-ubyte", "x");
  EXPECT_EQ(find_or_download("fashion_mnist"), cache_ / "FashionMNIST/raw");
}

TEST(RemoteDataset, EveryFileHasASha256ASizeAndHttps) {
  const Environment mirror("RONDO_MIRROR", nullptr);
  for (const char* name : {"cifar10", "cifar100", "mnist", "fashion_mnist"}) {
    for (const RemoteFile& file : remote_dataset(name).files) {
      EXPECT_EQ(file.checksum.size(), 64U) << file.url;
      EXPECT_GT(file.bytes, 0) << file.url;
      EXPECT_TRUE(file.url.starts_with("https://")) << file.url;
    }
  }
}

TEST(RemoteDataset, OfficialFilesHaveTheirChecksums) {
  const fs::path raw = test::real_data() / "MNIST/raw";
  int compared = 0;
  for (const auto& file : remote_dataset("mnist").files) {
    // A copy that was packed again has a different size.
    std::error_code error;
    if (static_cast<std::int64_t>(fs::file_size(raw / file.name, error)) != file.bytes) continue;
    EXPECT_EQ(sha256_of(raw / file.name), file.checksum) << file.name;
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "no MNIST as the official server has it in $RONDO_DATA";
}

}  // namespace
}  // namespace rondo::data
