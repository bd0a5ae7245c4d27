#pragma once
// AtomicFile: a file that appears whole or not at all.
//
// Bytes go to a file without a name in the same folder (O_TMPFILE); `commit` forces them to the
// disk, gives the file a name that nobody can guess, renames it to PATH and forces the directory's
// entry out as well. A process that is killed in between, by SIGKILL or a power cut, leaves the old
// PATH untouched, and nothing else. Several processes may write one PATH: the last to commit wins.
// Where the file system has no files without names, the file has its random name from the start.
// Files that grow (logs, partial downloads) are OwnFiles (tensor/own_file.h).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace rondo::io {

class AtomicFile {
 public:
  /// A symbolic link is followed, except that of another user in a folder like /tmp. Throws IoError
  /// when the directory is missing or not writable, or when `path` is a device, a pipe or a
  /// directory.
  explicit AtomicFile(std::string path);
  /// Removes the temporary file unless committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws IoError naming the file and the reason (disk full).
  void write(const void* data, std::size_t bytes);
  /// Overwrites bytes that were written before.
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  void commit();

 private:
  void give_name();
  void write_all(std::uint64_t offset, const char* data, std::size_t bytes);
  [[noreturn]] void fail(const char* what) const;

  std::string path_, temporary_;  // temporary_: empty while the file has no name
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Throws IoError naming `folder` unless it is one that may be written to, or could be made: what
/// is written at the end of a run is asked for at its beginning. Touches nothing.
void require_writable_folder(const std::filesystem::path& folder);

}  // namespace rondo::io
