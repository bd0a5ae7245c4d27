// The search for data sets, and the steps of a download: lock, download, compare the checksum,
// unpack to a temporary folder, rename.
//
// Read next: data/http_download.cpp (one file over curl), data/archive.cpp (tar and checksums).

#include "data/download.h"

#include <array>
#include <cstdlib>
#include <filesystem>

#include "data/files.h"
#include "data/mnist.h"
#include "tensor/error.h"
#include "tensor/lock_file.h"
#include "tensor/printable.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

const char* const datasets = "datasets";  // in cache_dir()

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// A folder that is removed when this object is destroyed, on success and on failure.
struct TemporaryFolder {
  explicit TemporaryFolder(fs::path p) : path(std::move(p)) {
    std::error_code ignored;
    fs::remove_all(path, ignored);  // left over from a killed process
    make_own_folder(path.string());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  fs::path path;
};

/// Removes at its end the folders that are then empty: `folder`, and those above it that do not
/// exist yet.
class EmptyFolders {
 public:
  explicit EmptyFolders(fs::path folder) : folder_(std::move(folder)), stays_(folder_) {
    std::error_code ignored;
    while (!stays_.empty() && !fs::exists(stays_, ignored)) stays_ = stays_.parent_path();
  }
  ~EmptyFolders() {
    std::error_code ignored;
    for (fs::path path = folder_; path != stays_; path = path.parent_path())
      fs::remove(path, ignored);
  }
  EmptyFolders(const EmptyFolders&) = delete;
  EmptyFolders& operator=(const EmptyFolders&) = delete;

 private:
  fs::path folder_, stays_;
};

/// How a data set is recognised on disk.
struct Traces {
  std::vector<std::string> folders;  // below a folder of data sets, or below datasets/ in it
  std::vector<std::string> files;  // one of these (or with .gz) must be in such a folder or in the
                                   // given one
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

/// Searches one folder after another for a data set, and remembers a folder that it was not
/// permitted to read.
class Search {
 public:
  explicit Search(Traces traces) : traces_(std::move(traces)) {}

  /// The folder with the set, in or below `dir`; empty if it is not there.
  fs::path in(const fs::path& dir, bool or_itself) {
    for (const auto& folder : traces_.folders) {
      for (const fs::path& path : {dir / folder, dir / datasets / folder})
        if (holds(path)) return path;
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

  /// Searches cache_dir() and the distribution's folder. cache_dir() is shared by all data sets, so
  /// files directly in it that may be MNIST's or Fashion-MNIST's do not count.
  fs::path anywhere(const std::string& name) {
    fs::path found = in(cache_dir(), name.starts_with("cifar"));
    if (found.empty() && !traces_.system.empty() && holds(traces_.system)) found = traces_.system;
    return found;
  }

  /// The end of an error message about a failed search.
  const std::string& unreadable() const { return unreadable_; }

 private:
  Traces traces_;
  std::string unreadable_;
};

struct SumAndSize {
  const char* sha256;
  std::int64_t bytes;
};

std::vector<RemoteFile> idx_files(const std::string& base, const std::array<SumAndSize, 4>& sums) {
  std::vector<RemoteFile> files;
  for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                           "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}) {
    const SumAndSize& is = sums[files.size()];
    files.push_back({name, base + name, is.sha256, is.bytes});
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
  const fs::path target = cache / remote.folder, folder = target.parent_path();
  const fs::path archive = folder / remote.files.at(0).name;
  make_folder(folder);
  download(remote.files[0], archive, options);
  // Not in the system's temporary folder, because rename must stay in one file system.
  const TemporaryFolder unpacking(folder / ("." + remote.name + ".unpacking"));
  unpack(archive, unpacking.path, remote.unpacked_bytes);
  const fs::path unpacked = unpacking.path / target.filename();
  require<IoError>(fs::is_directory(unpacked), archive.string(), ": contains no folder ",
                   target.filename().string());
  rename_or_throw(unpacked, target);
  std::error_code ignored;
  fs::remove(archive, ignored);
}

bool has(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  return fs::exists(path) || fs::exists(folder / (name + ".gz")) ||
         (path.extension() == ".gz" && fs::exists(folder / path.stem()));
}

/// The files of `remote` that have to be downloaded into its folder.
std::vector<RemoteFile> missing(const RemoteDataset& remote, const fs::path& folder) {
  if (remote.archive && fs::exists(folder)) return {};
  std::vector<RemoteFile> all = remote.files;
  std::erase_if(all, [&](const RemoteFile& file) { return has(folder, file.name); });
  return all;
}

void obtain_files(const RemoteDataset& remote, const fs::path& cache,
                  const DownloadOptions& options) {
  const fs::path target = cache / remote.folder;
  if (fs::exists(target)) {  // it has some of the files
    for (const auto& file : missing(remote, target)) download(file, target / file.name, options);
    return;
  }
  // Complete files wait here for the others, also after an interruption.
  const fs::path arrived = cache / ("." + remote.name + ".files");
  const EmptyFolders if_failed(arrived);
  make_own_folder(arrived.string());
  for (const auto& file : remote.files) download(file, arrived / file.name, options);
  rename_or_throw(arrived, target);
}

}  // namespace

// Checksums and sizes are those of TensorFlow Datasets (tensorflow_datasets/url_checksums). They
// agree with the MD5s of the authors and of torchvision for all files that could be compared.
RemoteDataset remote_dataset(const std::string& name) {
  std::string mirror = environment("RONDO_MIRROR");
  if (!mirror.empty() && mirror.back() != '/') mirror += '/';
  const auto cifar = [&](const char* folder, const std::string& file, const char* sha256,
                         std::int64_t bytes, std::vector<std::string> contents) {
    const std::string server = mirror.empty() ? "https://www.cs.toronto.edu/~kriz/" : mirror;
    return RemoteDataset{.name = name,
                         .folder = concat(datasets, '/', folder),
                         .archive = true,
                         .files = {{file, server + file, sha256, bytes}},
                         .contents = std::move(contents),
                         .unpacked_bytes = 185'000'000,  // 60,000 records of at most 3,074 bytes
                         .in_rondo_data = true};
  };
  if (name == "cifar10")
    return cifar("cifar-10-batches-bin", "cifar-10-binary.tar.gz",
                 "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 170052171,
                 {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                  "data_batch_5.bin", "test_batch.bin"});
  if (name == "cifar100")
    return cifar("cifar-100-binary", "cifar-100-binary.tar.gz",
                 "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", 168513733,
                 {"train.bin", "test.bin"});
  if (name == "mnist") {
    return {
        .name = name,
        .folder = concat(datasets, "/MNIST/raw"),
        .files = idx_files(
            mirror.empty() ? "https://ossci-datasets.s3.amazonaws.com/mnist/" : mirror + "mnist/",
            {{{"440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422},
              {"3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881},
              {"8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877},
              {"f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542}}}),
        .in_rondo_data = true};
  }
  require(name == "fashion_mnist", "unknown data set '", name,
          "'; use one of cifar10, cifar100, mnist, fashion_mnist");
  // The authors' repository, because their server does not support https.
  return {.name = name,
          .folder = concat(datasets, "/FashionMNIST/raw"),
          .files = idx_files(
              mirror.empty() ? "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/"
                               "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/"
                             : mirror + "fashion-mnist/",
              {{{"3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26421880},
                {"a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29515},
                {"346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4422102},
                {"67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5148}}}),
          .in_rondo_data = true};
}

std::string cache_dir() {
  if (const std::string data = environment("RONDO_DATA"); !data.empty()) return data;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return fs::path(cache) / "rondo";
  }
  const std::string home = environment("HOME");
  require<IoError>(!home.empty(),
                   "RONDO_DATA, XDG_CACHE_HOME and HOME are not set, so the folder for "
                   "data is unknown; set RONDO_DATA or data_dir (--data in the examples)");
  return fs::path(home) / ".cache/rondo";
}

std::string find_dataset(const std::string& name) {
  remote_dataset(name);  // throws if the name is unknown
  Search search(traces_of(name));
  return search.anywhere(name);
}

std::vector<std::string> missing_files(const RemoteDataset& remote, const std::string& folder) {
  std::vector<std::string> names = remote.contents;
  if (!remote.archive) {
    for (const RemoteFile& file : remote.files) names.push_back(file.name);
  }
  std::erase_if(names, [&](const std::string& name) { return has(folder, name); });
  return names;
}

std::string without_network(const RemoteDataset& remote, const std::string& cache) {
  if (remote.in_rondo_data) {
    return concat("on a machine with a network run `rondo-data get ", remote.name, " --to ",
                  shell_word(cache),
                  "`, and copy that folder here if the machines do not share it");
  }
  std::string names, from;
  for (const RemoteFile& file : remote.files) {
    names += (names.empty() ? "" : ", ") + file.name;
    from = file.url.substr(0, file.url.rfind('/') + 1);
  }
  const fs::path folder = fs::path(cache) / remote.folder;
  return concat("put ", names, " from ", from, " into ",
                (remote.archive ? folder.parent_path() : folder).string());
}

std::string find_or_download(const std::string& name, const DownloadOptions& options) {
  const RemoteDataset remote = remote_dataset(name);
  const Traces traces = traces_of(name);
  Search search(traces);
  if (!options.data_dir.empty()) {
    std::error_code ignored;
    require<IoError>(fs::exists(options.data_dir, ignored) || ignored, options.data_dir,
                     ": no such folder");
    const std::string found = search.in(options.data_dir, true);
    require<IoError>(!found.empty(), options.data_dir, ": holds no ", name, " (neither ",
                     traces.folders[0], "/", traces.files[0], " nor ", traces.files[0], ")",
                     search.unreadable());
    return found;
  }
  if (auto found = search.anywhere(name); !found.empty()) return found;
  const fs::path cache = cache_dir();
  const std::string instead = concat(
      "; or set RONDO_DATA, or data_dir (--data DIR in the examples), to a folder that holds ",
      name, search.unreadable());
  require<IoError>(options.allow_download, name, " is not in ", cache.string(),
                   ", and downloads are not allowed; ", without_network(remote, cache), instead);
  try {
    return obtain(remote, cache, options);
  } catch (const IoError& error) {
    throw IoError(error.what() + instead);
  }
}

std::string obtain(const RemoteDataset& remote, const std::string& cache,
                   const DownloadOptions& options) {
  const std::string target = fs::path(cache) / remote.folder;
  if (missing(remote, target).empty()) return target;
  const EmptyFolders if_failed(target);
  make_folder(cache);  // what it throws has nothing to do with a network
  try {
    std::optional<LockFile> lock;
    while (!lock) {  // a process whose download failed may have removed the folder meanwhile
      make_folder(cache);
      try {
        lock.emplace(fs::path(cache) / ("." + remote.name + ".lock"),
                     concat("it downloads ", remote.name), LockFile::IfHeld::wait);
      } catch (const IoError&) {
        if (fs::exists(cache)) throw;
      }
    }
    if (!missing(remote, target).empty())  // unless another process was faster
      (remote.archive ? obtain_archive : obtain_files)(remote, cache, options);
  } catch (const IoError& error) {
    throw IoError(concat(error.what(), "; ", without_network(remote, cache)));
  }
  return target;
}

}  // namespace rondo::data
