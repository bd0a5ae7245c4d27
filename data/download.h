#pragma once
// Finds the data sets, and downloads a data set once if it is not found.
//
//   const auto dir = find_or_download("cifar10", {.data_dir = flags.data});
//   auto train = load_cifar10(dir, Split::train);
//
// The search order is: the folder given by the caller (`--data`), else the folder of all downloads,
// $RONDO_DATA (cache_dir), then the folder where the Linux distribution installs the set. If the
// set is in none of them, it is downloaded into $RONDO_DATA. If the caller names a folder and the
// set is not there, that is an error. For a machine without a network, run `rondo-data get NAME
// --to DIR` on a machine with one.
//
// What can fail, and how the code handles it:
// - The connection breaks: NAME.part stays, and the next attempt requests the rest.
// - The server does not support ranges: the download starts again.
// - The bytes are wrong: the checksum is compared before anything is unpacked.
// - The archive would write outside its folder, or is far larger than the set: refused.
// - The process dies while unpacking: files are unpacked to a temporary folder in the cache, which
//   is renamed at the end.
// - All ranks need the same file at once: a lock file lets one rank download it. The others report
//   which process they wait for, and then find the file.
// - A link or a pipe exists where a file will be written: refused (tensor/own_file.h).
//
// Read next: data/open.h, which opens a data set by name.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rondo::data {

/// Called while bytes arrive, with the file, the bytes so far, and the total (0 while unknown).
using DownloadProgress =
    std::function<void(const std::string& file, std::int64_t received, std::int64_t total)>;

struct DownloadOptions {
  /// The folder that the caller names; empty: search for the set.
  std::string data_dir = {};
  /// false: throw if the set is not on this machine.
  bool allow_download = true;
  DownloadProgress progress = {};
  /// Seconds to wait for a connection to the server.
  std::int64_t connect_timeout = 10;
  /// A download fails if fewer bytes per second than this arrive for `patience` seconds.
  std::int64_t minimum_rate = 1024;
  std::int64_t patience = 30;
};

/// A file on a server.
struct RemoteFile {
  std::string name;      // its local name: a relative path
  std::string url;       // https://, http:// or file://
  std::string checksum;  // SHA-256, 64 hexadecimal digits
  /// Files of any other size are refused. 0: the size is unknown; at most 4 GiB.
  std::int64_t bytes = 0;
};

/// The files of a data set on a server, and where they go.
struct RemoteDataset {
  std::string name;
  /// The resulting folder, below the cache. An archive contains its last component.
  std::string folder;
  /// true: one tar archive; false: files that go into the folder unchanged.
  bool archive = false;
  std::vector<RemoteFile> files;
  /// The files of an archive that its reader needs.
  std::vector<std::string> contents = {};
  /// The largest size that the archive may unpack to; more is refused.
  std::int64_t unpacked_bytes = std::int64_t{1} << 30;
  /// Whether `rondo-data get` knows this name; errors then recommend that command.
  bool in_rondo_data = false;
};

/// "cifar10", "cifar100", "mnist" or "fashion_mnist": the official files and their checksums. If
/// $RONDO_MIRROR is set, its value replaces the official servers: MIRROR/cifar-10-binary.tar.gz,
/// MIRROR/cifar-100-binary.tar.gz, MIRROR/mnist/*.gz, MIRROR/fashion-mnist/*.gz. For another name,
/// throws Error listing the known ones.
RemoteDataset remote_dataset(const std::string& name);

/// The folder to pass to load_cifar10 and similar functions. Throws IoError saying what was
/// searched for and where, what the server or the disk reported, and what to do.
std::string find_or_download(const std::string& name, const DownloadOptions& options = {});

/// The folder where find_or_download finds the set without a download; empty: not found.
std::string find_dataset(const std::string& name);

/// The files of `remote` that are in `folder` neither compressed nor uncompressed. For an archive:
/// those of its contents.
std::vector<std::string> missing_files(const RemoteDataset& remote, const std::string& folder);

/// The folder of all downloads: $RONDO_DATA, else $XDG_CACHE_HOME/rondo, else ~/.cache/rondo. Data
/// sets go into its folder datasets/, weights into weights/ (extras/hub/pretrained.h). Throws
/// IoError if none of the variables ($RONDO_DATA, $XDG_CACHE_HOME, $HOME) is set.
std::string cache_dir();

/// Advice for error messages on a machine without a network: "on a machine with a network run
/// `rondo-data get …`", or which files to put where.
std::string without_network(const RemoteDataset& remote, const std::string& cache);

/// Creates `cache / remote.folder` unless it exists, and returns it. Safe against other threads,
/// processes and ranks that do the same.
std::string obtain(const RemoteDataset& remote, const std::string& cache,
                   const DownloadOptions& options = {});

/// Downloads to `path`. The file appears only after its checksum was verified. Resumes from
/// path.part. A redirect may lead to https only.
void download(const RemoteFile& file, const std::string& path, const DownloadOptions& options = {});

/// Unpacks a tar archive (plain, gzip or bzip2) into the folder `into`. Throws IoError naming
/// archive and entry if the archive is damaged, if it would take more than `limit` bytes (each
/// entry counts as at least 4 KiB), or if an entry is neither file nor folder or would be written
/// outside `into`.
void unpack(const std::string& archive, const std::string& into,
            std::int64_t limit = std::int64_t{1} << 30);

/// SHA-256 of a file, 64 hexadecimal digits.
std::string sha256_of(const std::string& file);

}  // namespace rondo::data
