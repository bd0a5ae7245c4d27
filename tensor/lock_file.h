#pragma once
// LockFile: a file that only one process at a time holds open for writing. The file names that
// process.

#include <string>

#include "tensor/home_process.h"
#include "tensor/own_file.h"

namespace rondo {

/// The lock is held while this object exists. The system releases it when the process ends for any
/// reason.
class LockFile {
 public:
  enum class IfHeld { fail, wait };

  /// Opens or creates `path` (mode 0600), locks it, and writes the holder into it. If another
  /// process, or another LockFile of this process, holds the lock, `fail` throws IoError, and
  /// `wait` prints a line to standard error and waits: "<path>: process 4711 (classifier) on node7
  /// holds it: <what>". Throws IoError when the file is refused (OwnFile) or cannot be written. On
  /// a file system without locks, `fail` locks nothing and `wait` throws IoError.
  LockFile(const std::string& path, const std::string& what, IfHeld if_held = IfHeld::fail);
  /// Removes the file, except in a forked child: its parent still holds the lock.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  OwnFile file_;
  HomeProcess home_;
};

}  // namespace rondo
