#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tensor/error.h"
#include "tensor/own_file.h"

namespace rondo::io {
namespace {

/// Whether another user has put this link into a folder like /tmp. Linux refuses to follow such
/// links (protected_symlinks), but not if the program reads the link itself, as this file does.
bool is_planted(const std::filesystem::path& link) {
  const std::filesystem::path parent = link.parent_path();
  struct stat folder {
  }, own{};
  if (::stat(parent.empty() ? "." : parent.c_str(), &folder) != 0) return false;
  if (::lstat(link.c_str(), &own) != 0) return false;
  constexpr mode_t shared = S_ISVTX | S_IWOTH;
  return (folder.st_mode & shared) == shared && own.st_uid != ::geteuid() &&
         own.st_uid != folder.st_uid;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  namespace fs = std::filesystem;
  require<IoError>(!path_.empty(), "cannot write a file: its name is empty");
  // Resolve links first: a rename would replace the link or the device itself.
  std::error_code ignored;
  const std::string asked = path_;
  bool is_open_file = false;  // such as /dev/stdout: the new file would replace what it leads to
  for (int links = 0; links < 40 && fs::is_symlink(path_, ignored); ++links) {  // or dangling
    const std::string folder =
        fs::weakly_canonical(fs::path(path_).parent_path(), ignored).string();
    is_open_file = is_open_file || (folder.starts_with("/proc/") && folder.ends_with("/fd"));
    require<IoError>(!is_planted(path_), "cannot write ", path_,
                     ": it is a symbolic link of another user; remove it or choose another name");
    path_ = (fs::path(path_).parent_path() / fs::read_symlink(path_, ignored)).string();
  }
  require<IoError>(!fs::is_symlink(path_, ignored), "cannot write ", path_,
                   ": its symbolic links form a loop");
  require<IoError>(!is_open_file, "cannot write ", asked,
                   ": it is a file that this process has open; give a name of its own");
  const fs::file_status there = fs::status(path_, ignored);
  require<IoError>(there.type() != fs::file_type::directory, "cannot write ", path_,
                   ": it is a directory");
  require<IoError>(!fs::exists(there) || fs::is_regular_file(there), "cannot write ", path_,
                   ": it is not a regular file");
  const fs::path folder = fs::path(path_).parent_path();
  if (::access("/proc/self/fd", X_OK) == 0)  // give_name needs it
    descriptor_ =
        ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor_ >= 0) return;
  temporary_ = temporary_name(path_);
  descriptor_ =
      ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create");
}

/// Gives the file a name so that it can be renamed: linkat cannot replace an existing file.
void AtomicFile::give_name() {
  if (!temporary_.empty()) return;
  std::string name = temporary_name(path_);
  const std::string file = concat("/proc/self/fd/", descriptor_);
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    fail("name");
  temporary_ = std::move(name);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  ::close(descriptor_);
}

void AtomicFile::fail(const char* what) const {
  const int error = errno;
  throw IoError(
      concat("cannot write ", path_, ": failed to ", what, " the file that will replace it",
             temporary_.empty() ? "" : " (" + temporary_ + ")", ": ", std::strerror(error)));
}

void AtomicFile::write_all(std::uint64_t offset, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    ssize_t n = ::pwrite(descriptor_, data, std::min(bytes, std::size_t{1} << 30),
                         static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write");
    data += n;
    offset += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  write_all(size_, static_cast<const char*>(data), bytes);
  size_ += bytes;
}

void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  require(offset + bytes <= size_, "AtomicFile::write_at: beyond the end of ", path_);
  write_all(offset, static_cast<const char*>(data), bytes);
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("flush");
  give_name();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  ::close(descriptor_);
  descriptor_ = -1;
  auto parent = std::filesystem::path(path_).parent_path();
  int directory = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {  // not all file systems support this; the file itself is on the disk
    ::fsync(directory);
    ::close(directory);
  }
}

void require_writable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path there =
      std::filesystem::absolute(folder.empty() ? std::filesystem::path(".") : folder, error);
  while (!std::filesystem::exists(there, error) && there.has_relative_path())
    there = there.parent_path();
  require<IoError>(std::filesystem::is_directory(there, error) && access(there.c_str(), W_OK) == 0,
                   folder.string(), ": cannot be written: ", there.string(),
                   " is not a writable folder");
}

}  // namespace rondo::io
