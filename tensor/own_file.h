#pragma once
// OwnFile: a file under a name that others can guess, opened to be written.
//
// The names of locks, logs and partial downloads are known beforehand. In a folder that others may
// write to, something may wait there: a symbolic link or a second name of a file that matters, or a
// pipe that never answers. An OwnFile refuses all of these. Files that are written at once, under a
// name that nobody can guess, are AtomicFiles (io/atomic_file.h).
//
// Read next: tensor/lock_file.h.

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

class OwnFile {
 public:
  enum class Mode {
    append,   ///< each write goes to the end of what is there
    replace,  ///< what was there is removed
    create    ///< nothing may be there
  };
  /// Opens `path` or makes it, with these permissions less the umask. Throws IoError naming `path`
  /// when that fails, and when a file is there that is not a regular file of this user with a
  /// single name; a symbolic link is not followed.
  OwnFile(std::string path, Mode mode, unsigned permissions = 0666);
  ~OwnFile();
  OwnFile(OwnFile&& other) noexcept;
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  /// Throws IoError naming the file and the reason (disk full).
  void write(std::string_view bytes);
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

/// PATH.<16 random hexadecimal digits>.tmp: a name that nobody can guess, under which no link, pipe
/// or file of the user's can wait.
std::string temporary_name(const std::string& path);

/// Makes a folder, or takes the one that is there. Throws IoError naming `path` when that fails,
/// and when it is another user's folder or a symbolic link.
void make_own_folder(const std::string& path);

}  // namespace rondo
