#pragma once
// LockFile: a file that one process at a time has open for writing.

#include <string>

namespace rondo::io {

/// Opens `path`, makes it if it is not there, and locks it: a descriptor, or -1 with errno, which
/// is EWOULDBLOCK where another process has the lock. A file system without locks has none.
int open_locked(const char* path);

/// Held as long as it lives, and given back by the system when the process ends in whatever way.
class LockFile {
 public:
  /// Throws IoError: "<what>" when another process holds it, else the reason.
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
