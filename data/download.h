#pragma once
// Finding the data sets, and fetching them once when they are nowhere.
//
//   const auto dir = find_or_download("cifar10", {.data_dir = flags.data});
//   auto train = load_cifar10(dir, Split::train);
//
// Looked at, in this order: the folder given by the caller (`--data`), else the folder of all that
// is downloaded, $RONDO_DATA (cache_dir), and where the distribution installs the set. If it is in
// none of them it is downloaded into $RONDO_DATA. A folder that the caller names is not
// second-guessed: when the set is not there, that is an error. A machine without a network gets its
// folder from one that has a network: `rondo-data get NAME --to DIR`.
//
// What can go wrong on the way, and what then happens: the line breaks (NAME.part stays and the
// next attempt asks for the rest), the server has no ranges (start again), the bytes are others
// (the checksum is compared before anything is unpacked), the archive wants to write elsewhere
// (refused) or is far larger than the set (refused), the process dies while unpacking (a
// folder in the cache, which is renamed at the end), all ranks want the same file at once (a lock
// file: one downloads, the others say for whom they wait, and find it), somebody has put a link or
// a pipe where a file will be written (refused: tensor/own_file.h).
//
// Read next: data/open.h, which goes from a name to a data set.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace rondo::data {

/// Called while bytes arrive: the file, bytes so far, bytes in all (0 while unknown).
using Progress =
    std::function<void(const std::string& file, std::int64_t received, std::int64_t total)>;

struct DownloadOptions {
  /// Where the caller says the data are; empty: look for them.
  std::filesystem::path data_dir = {};
  /// false: what is not on this machine is an error.
  bool allow_download = true;
  Progress progress = {};
  /// Seconds until a server that does not answer counts as absent.
  std::int64_t connect_timeout = 10;
  /// A download ends when fewer bytes a second than this arrive for `patience` seconds.
  std::int64_t minimum_rate = 1024;
  std::int64_t patience = 30;
};

/// A file on a server.
struct RemoteFile {
  std::string name;      // as it is called here: a relative path
  std::string url;       // https://, http:// or file://
  std::string checksum;  // SHA-256, 64 hexadecimal digits
  /// Any other size is refused. 0: not known, at most 4 GiB.
  std::int64_t bytes = 0;
};

/// How a data set travels.
struct RemoteDataset {
  std::string name;
  /// The folder that results, below the cache; an archive contains its last part.
  std::string folder;
  /// true: one tar archive; false: files that belong into the folder as they are.
  bool archive = false;
  std::vector<RemoteFile> files;
  /// What the archive may unpack to; more is refused.
  std::int64_t unpacked_bytes = std::int64_t{1} << 30;
  /// Whether `rondo-data get` knows it by this name, as errors then say.
  bool in_rondo_data = false;
};

/// "cifar10", "cifar100", "mnist" or "fashion_mnist": the official files and their checksums. With
/// $RONDO_MIRROR set, its value stands in place of the official servers:
/// MIRROR/cifar-10-binary.tar.gz, MIRROR/cifar-100-binary.tar.gz, MIRROR/mnist/*.gz,
/// MIRROR/fashion-mnist/*.gz. Throws Error naming the known ones for another name.
RemoteDataset remote_dataset(const std::string& name);

/// The folder to give to load_cifar10 and its like. Throws IoError saying what was looked for and
/// where, what the server or the disk answered, and what to do.
std::filesystem::path find_or_download(const std::string& name,
                                       const DownloadOptions& options = {});

/// Where find_or_download finds it without a download; empty: nowhere.
std::filesystem::path find_dataset(const std::string& name);

/// The folder of all that is downloaded: $RONDO_DATA, or without it $XDG_CACHE_HOME/rondo or
/// ~/.cache/rondo. Downloads of data sets go into its folder datasets/, those of weights into
/// weights/ (extras/hub/pretrained.h). Throws IoError when none of these variables is set.
std::filesystem::path cache_dir();

/// What to do on a machine without a network, for errors: "on a machine with a network run
/// `rondo-data get …`", or which files to put where.
std::string without_network(const RemoteDataset& remote, const std::filesystem::path& cache);

/// Makes `cache / remote.folder` unless it is there, and returns it. Safe against other threads,
/// processes and ranks that do the same.
std::filesystem::path obtain(const RemoteDataset& remote, const std::filesystem::path& cache,
                             const DownloadOptions& options = {});

/// Downloads to `path`, which appears only when the checksum holds; goes on from path.part. A
/// redirect may lead to https only.
void download(const RemoteFile& file, const std::filesystem::path& path,
              const DownloadOptions& options = {});

/// Unpacks a tar archive (plain, gzip or bzip2) into the folder `into`. Throws IoError naming
/// archive and entry when it is damaged, would take more than `limit` bytes (an entry counts as 4
/// KiB at least), or an entry is neither file nor folder or would leave `into`.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& into,
            std::int64_t limit = std::int64_t{1} << 30);

/// SHA-256 of a file, 64 hexadecimal digits.
std::string sha256_of(const std::filesystem::path& file);

}  // namespace rondo::data
