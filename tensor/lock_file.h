#pragma once
// LockFile: a file that one process at a time has open for writing. It says which one.

#include <string>

#include "tensor/own_file.h"

namespace rondo {

/// Held as long as it lives. The system releases it when the process ends, however it ends.
class LockFile {
 public:
  enum class IfHeld { fail, wait };

  /// Opens `path` or makes it (mode 0600), locks it, and writes into it who holds it. When another
  /// process, or another LockFile of this one, holds it, either throws IoError or prints a line to
  /// standard error and waits: "<path>: process 4711 (classifier) on node7 holds it: <what>".
  /// Throws IoError when the file is refused (OwnFile) or cannot be written. On a file system
  /// without locks `fail` locks nothing, and `wait` throws IoError.
  LockFile(const std::string& path, const std::string& what, IfHeld if_held = IfHeld::fail);
  /// Removes the file.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  OwnFile file_;
};

}  // namespace rondo
