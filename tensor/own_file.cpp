#include "tensor/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "tensor/error.h"

namespace rondo {
namespace {

/// Some file systems assign every new file to the owner of the folder, or of the mount.
bool is_of_the_folders_owner(const struct stat& file, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat its {};
  return ::stat(folder.c_str(), &its) == 0 && file.st_uid == its.st_uid;
}

/// The reason why the opened file must not be written; nullptr if it may be written.
const char* objection(int descriptor, const std::string& path) {
  struct stat file {};
  if (::fstat(descriptor, &file) != 0) return std::strerror(errno);
  if (!S_ISREG(file.st_mode)) return "it is not a regular file";
  if (file.st_uid != ::geteuid() && !is_of_the_folders_owner(file, path))
    return "it belongs to another user";
  if (file.st_nlink > 1) return "it has a second name (a hard link)";
  return nullptr;
}

}  // namespace

OwnFile::OwnFile(std::string path, Mode mode, unsigned permissions) : path_(std::move(path)) {
  int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY;
  flags |= O_NOFOLLOW | O_NONBLOCK;  // a pipe would wait for a reader
  if (mode == Mode::append) flags |= O_APPEND;
  if (mode == Mode::create) flags |= O_EXCL;
  descriptor_ = ::open(path_.c_str(), flags, permissions);
  require<IoError>(descriptor_ >= 0 || errno != ELOOP, path_,
                   ": cannot be written: it is a symbolic link; remove it");
  require<IoError>(descriptor_ >= 0, path_, ": cannot be written: ", std::strerror(errno));
  const char* reason = objection(descriptor_, path_);
  // Truncate only now: O_TRUNC would empty a file that is refused.
  if (reason == nullptr && mode == Mode::replace && ::ftruncate(descriptor_, 0) != 0)
    reason = std::strerror(errno);
  if (reason == nullptr) return;
  ::close(descriptor_);
  throw IoError(concat(path_, ": cannot be written: ", reason, "; remove it"));
}

OwnFile::OwnFile(OwnFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OwnFile::~OwnFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OwnFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    require<IoError>(n >= 0, path_, ": cannot be written: ", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string temporary_name(const std::string& path) {
  std::random_device random;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%08x%08x", random(), random());
  return concat(path, '.', digits, ".tmp");
}

void make_own_folder(const std::string& path) {
  struct stat folder {};
  if (::mkdir(path.c_str(), 0777) == 0) return;
  require<IoError>(errno == EEXIST && ::lstat(path.c_str(), &folder) == 0, path,
                   ": cannot be created: ", std::strerror(errno));
  require<IoError>(S_ISDIR(folder.st_mode) && folder.st_uid == ::geteuid(), path,
                   ": exists, but is not a folder of this user; remove it");
}

}  // namespace rondo
