#pragma once
// AtomicFile: a file that appears whole or not at all.
//
// Bytes go to PATH.tmp; `commit` forces them to the disk, renames the file to PATH and forces the
// directory's entry out as well. Whoever is killed in between, by SIGKILL or a power cut, leaves
// the old PATH untouched; the next writer takes PATH.tmp over. A lock on it keeps two processes
// from writing one file at a time.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace rondo::io {

class AtomicFile {
 public:
  /// A symbolic link is followed. Throws IoError when the directory is missing or not writable,
  /// when `path` is a device, a pipe or a directory, or when another process is writing this very
  /// file.
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
  void write_all(std::uint64_t offset, const char* data, std::size_t bytes);
  [[noreturn]] void fail(const char* what) const;

  std::string path_, temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Throws IoError naming `folder` unless it is one that may be written to, or could be made: what
/// is written at the end of a run is asked for at its beginning. Touches nothing.
void require_writable_folder(const std::filesystem::path& folder);

}  // namespace rondo::io
