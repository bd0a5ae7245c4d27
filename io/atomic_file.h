#pragma once
// AtomicFile: a file that appears whole or not at all.
//
// The bytes go to an unnamed file in the same folder (O_TMPFILE). `commit` flushes them to the
// disk, gives the file a random name, renames it to PATH, and flushes the directory entry. A
// process that is killed before that, by SIGKILL or a power cut, leaves the old PATH unchanged and
// no other file. If several processes write the same PATH, the last one to commit wins.
// If the file system does not support unnamed files, the file has its random name from the start.
// For files that grow (logs, partial downloads) use OwnFile (tensor/own_file.h).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace rondo::io {

class AtomicFile {
 public:
  /// Follows a symbolic link, unless it belongs to another user and is in a folder like /tmp.
  /// Throws IoError if the directory does not exist or is not writable, or if `path` is a device, a
  /// pipe or a directory.
  explicit AtomicFile(std::string path);
  /// Removes the temporary file, unless `commit` was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws IoError naming the file and the reason (such as a full disk).
  void write(const void* data, std::size_t bytes);
  /// Overwrites bytes that were already written.
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

/// Throws IoError naming `folder` unless the folder is writable or could be created. A program
/// calls this at its start, so that it does not fail when it writes its results at the end. Changes
/// nothing.
void require_writable_folder(const std::filesystem::path& folder);

}  // namespace rondo::io
