#pragma once
// OwnFile: a file whose name others can guess, opened for writing.
//
// The names of locks, logs and partial downloads are predictable. In a folder that others may write
// to, another user may have created something under that name: a symbolic or hard link to an
// important file, or a pipe that blocks forever. OwnFile refuses all of these. Files that are
// written in one go, under a name that nobody can guess, are AtomicFiles (io/atomic_file.h).
//
// Read next: tensor/lock_file.h.

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

class OwnFile {
 public:
  enum class Mode {
    append,   ///< each write appends to the file
    replace,  ///< the old content is removed
    create    ///< the file must not exist yet
  };
  /// Opens or creates `path` with `permissions` (less the umask). Throws IoError naming `path` if
  /// that fails, or if the existing file is not a regular file of this user with a single hard
  /// link. Does not follow a symbolic link.
  OwnFile(std::string path, Mode mode, unsigned permissions = 0666);
  ~OwnFile();
  OwnFile(OwnFile&& other) noexcept;
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  /// Throws IoError with the file name and the reason (such as a full disk).
  void write(std::string_view bytes);
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

/// PATH.<16 random hexadecimal digits>.tmp: a name that nobody can guess, so no link, pipe or
/// user's file can exist under it already.
std::string temporary_name(const std::string& path);

/// Creates a folder, or accepts an existing one. Throws IoError naming `path` if that fails, or if
/// the folder belongs to another user or is a symbolic link.
void make_own_folder(const std::string& path);

}  // namespace rondo
