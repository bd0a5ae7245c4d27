// Where data sets are looked for, and the order of steps that gets one: lock, download, compare,
// unpack beside, rename.
//
// Read next: data/transfer.cpp (one file over curl), data/archive.cpp (tar and checksums).

#include "data/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "data/files.h"
#include "data/mnist.h"
#include "tensor/error.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Held by the one who downloads. The system lets go of it when the process ends, however it ends.
class FileLock {
 public:
  explicit FileLock(const fs::path& path)
      : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    require<IoError>(file_ >= 0, path.string(), ": cannot be written (", std::strerror(errno), ")");
    int result;
    do {
      result = flock(file_, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
      const std::string reason = std::strerror(errno);
      close(file_);
      throw IoError(concat(path.string(), ": cannot be locked (", reason, ")"));
    }
  }
  ~FileLock() { close(file_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

/// A folder that goes when its maker does, whether it succeeded or not.
struct TemporaryFolder {
  explicit TemporaryFolder(fs::path p) : path(std::move(p)) {
    std::error_code ignored;
    fs::remove_all(path, ignored);  // what a killed predecessor left
    make_folder(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  fs::path path;
};

/// How a set is recognised on a disk.
struct Traces {
  std::vector<std::string> folders;  // below a folder of data sets
  std::vector<std::string> files;  // any of them (or with .gz) in such a folder or in the given one
  fs::path system;                 // where the distribution installs it
};

Traces traces_of(const std::string& name) {
  const std::vector<std::string> idx{"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"};
  if (name == "cifar10")
    return {{"cifar-10-batches-bin"}, {"data_batch_1.bin", "test_batch.bin"}, {}};
  if (name == "cifar100") return {{"cifar-100-binary"}, {"train.bin", "test.bin"}, {}};
  if (name == "mnist") return {mnist_folders(), idx, {}};
  return {fashion_mnist_folders(), idx, "/usr/share/datasets/fashion-mnist"};
}

/// Looks for a set in one folder after another, and remembers which it was not allowed to look
/// into.
class Search {
 public:
  explicit Search(Traces traces) : traces_(std::move(traces)) {}

  /// The folder with the set in or below `dir`; empty when it is not there.
  fs::path in(const fs::path& dir, bool or_itself) {
    for (const auto& folder : traces_.folders) {
      if (holds(dir / folder)) return dir / folder;
    }
    return or_itself && holds(dir) ? dir : fs::path{};
  }

  bool holds(const fs::path& folder) {
    for (const auto& file : traces_.files) {
      std::error_code error;
      if (fs::exists(folder / file, error) || fs::exists(folder / (file + ".gz"), error))
        return true;
      if (error == std::errc::permission_denied)
        unreadable_ = concat("; ", folder.string(), " cannot be read (", error.message(), ")");
    }
    return false;
  }

  /// For the end of a sentence that says where nothing was found.
  const std::string& unreadable() const { return unreadable_; }

 private:
  Traces traces_;
  std::string unreadable_;
};

std::vector<RemoteFile> idx_files(const std::string& base, const std::vector<std::string>& md5) {
  std::vector<RemoteFile> files;
  for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                           "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}) {
    files.push_back({name, base + name, md5[files.size()]});
  }
  return files;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  make_folder(to.parent_path());
  std::error_code error;
  fs::rename(from, to, error);
  require<IoError>(!error, to.string(), ": cannot be created (", error.message(), ")");
}

void obtain_archive(const RemoteDataset& remote, const fs::path& cache,
                    const DownloadOptions& options) {
  const fs::path archive = cache / remote.files.at(0).name;
  download(remote.files[0], archive, options);
  // Not in the system's temporary folder: a rename must not cross file systems.
  const TemporaryFolder beside(cache / ("." + remote.name + ".unpacking"));
  unpack(archive, beside.path);
  require<IoError>(fs::is_directory(beside.path / remote.folder), archive.string(),
                   ": contains no folder ", remote.folder);
  rename_or_throw(beside.path / remote.folder, cache / remote.folder);
  std::error_code ignored;
  fs::remove(archive, ignored);
}

void obtain_files(const RemoteDataset& remote, const fs::path& cache,
                  const DownloadOptions& options) {
  // Files that have arrived wait here for the others, over an interruption too.
  const fs::path arrived = cache / ("." + remote.name + ".files");
  make_folder(arrived);
  for (const auto& file : remote.files) download(file, arrived / file.name, options);
  rename_or_throw(arrived, cache / remote.folder);
}

}  // namespace

RemoteDataset remote_dataset(const std::string& name) {
  std::string mirror = environment("RONDO_MIRROR");
  if (!mirror.empty() && mirror.back() != '/') mirror += '/';
  const std::string cifar = mirror.empty() ? "https://www.cs.toronto.edu/~kriz/" : mirror;
  if (name == "cifar10") {
    const std::string file = "cifar-10-binary.tar.gz";
    return {name,
            "cifar-10-batches-bin",
            true,
            {{file, cifar + file, "c32a1d4ab5d03f1284b67883e8d87530"}}};
  }
  if (name == "cifar100") {
    const std::string file = "cifar-100-binary.tar.gz";
    return {
        name, "cifar-100-binary", true, {{file, cifar + file, "03b5dce01913d631647c71ecec9e9cb8"}}};
  }
  if (name == "mnist") {
    return {name, "MNIST/raw", false,
            idx_files(mirror.empty() ? "https://ossci-datasets.s3.amazonaws.com/mnist/"
                                     : mirror + "mnist/",
                      {"f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                       "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"})};
  }
  require(name == "fashion_mnist", "there is no data set '", name,
          "'; known are cifar10, cifar100, mnist and fashion_mnist");
  return {name, "FashionMNIST/raw", false,
          idx_files(mirror.empty() ? "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                                   : mirror + "fashion-mnist/",
                    {"8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                     "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"})};
}

fs::path cache_dir() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return fs::path(cache) / "rondo/datasets";
  }
  const std::string home = environment("HOME");
  require<IoError>(!home.empty(),
                   "neither XDG_CACHE_HOME nor HOME is set, so there is no cache to "
                   "look for data in; set RONDO_DATA, or data_dir (--data in the examples), to a "
                   "folder that holds it");
  return fs::path(home) / ".cache/rondo/datasets";
}

fs::path find_or_download(const std::string& name, const DownloadOptions& options) {
  const RemoteDataset remote = remote_dataset(name);
  const Traces traces = traces_of(name);
  Search search(traces);
  if (!options.data_dir.empty()) {
    std::error_code ignored;
    require<IoError>(fs::exists(options.data_dir, ignored) || ignored, options.data_dir.string(),
                     ": no such folder");
    const fs::path found = search.in(options.data_dir, true);
    require<IoError>(!found.empty(), options.data_dir.string(), ": holds no ", name, " (neither ",
                     traces.folders[0], "/", traces.files[0], " nor ", traces.files[0], ")",
                     search.unreadable());
    return found;
  }
  const std::string given = environment("RONDO_DATA");
  if (!given.empty()) {
    // A variable stands for all sets: files that could be MNIST's or Fashion-MNIST's say nothing.
    const bool telling = name.starts_with("cifar");
    if (auto found = search.in(given, telling); !found.empty()) return found;
  }
  const fs::path cache = cache_dir();
  if (auto found = search.in(cache, false); !found.empty()) return found;
  if (!traces.system.empty() && search.holds(traces.system)) return traces.system;
  const std::string places = concat("$RONDO_DATA (", given.empty() ? "not set" : given, ") nor ");
  require<IoError>(options.allow_download, name, " is neither in ", places, "in ", cache.string(),
                   search.unreadable());
  try {
    return obtain(remote, cache, options);
  } catch (const IoError& error) {
    throw IoError(
        concat(error.what(), "; ", name, " was downloaded because neither ", places, cache.string(),
               " holds it; set RONDO_DATA, or data_dir (--data DIR in the examples), to a "
               "folder that does",
               search.unreadable()));
  }
}

fs::path obtain(const RemoteDataset& remote, const fs::path& cache,
                const DownloadOptions& options) {
  const fs::path target = cache / remote.folder;
  if (fs::exists(target)) return target;
  make_folder(cache);
  const FileLock lock(cache / ("." + remote.name + ".lock"));
  if (fs::exists(target)) return target;  // somebody else was faster
  (remote.archive ? obtain_archive : obtain_files)(remote, cache, options);
  return target;
}

}  // namespace rondo::data
