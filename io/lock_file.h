#pragma once
// LockFile: a file that one process at a time has open for writing.

#include <string>

namespace rondo::io {

/// Held as long as it lives, and given back by the system when the process ends in whatever way.
class LockFile {
 public:
  /// Opens `path` or makes it (mode 0600), and locks it. Throws IoError: "<what>" when another
  /// process holds it, else the reason; it refuses a `path` that is a symbolic link, a pipe,
  /// another user's file or one with a second name. A file system without locks has none.
  LockFile(std::string path, const std::string& what);
  /// Removes the file.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace rondo::io
