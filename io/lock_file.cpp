#include "io/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tensor/error.h"

namespace rondo::io {

namespace {

/// A descriptor, or -1 with errno, which is EWOULDBLOCK where another process has the lock.
//
// The loop is for another process that renamed or removed the file between our open and our lock:
// we would then hold the lock of a file that has no name, or another one.
int open_locked(const char* path) {
  for (;;) {
    int descriptor = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (descriptor < 0) return -1;
    struct stat opened {};
    if (::fstat(descriptor, &opened) != 0 || !S_ISREG(opened.st_mode) ||
        opened.st_uid != ::geteuid() || opened.st_nlink > 1) {
      ::close(descriptor);
      errno = EPERM;
      return -1;
    }
    bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      ::close(descriptor);
      errno = EWOULDBLOCK;
      return -1;
    }
    struct stat ours {
    }, named{};
    if (::fstat(descriptor, &ours) == 0 && ::stat(path, &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      return descriptor;
    }
    ::close(descriptor);
  }
}

}  // namespace

LockFile::LockFile(std::string path, const std::string& what)
    : path_(std::move(path)), descriptor_(open_locked(path_.c_str())) {
  require<IoError>(descriptor_ >= 0 || errno != EWOULDBLOCK, what);
  require<IoError>(descriptor_ >= 0, "cannot write ", path_, ": ", std::strerror(errno));
}

LockFile::~LockFile() {
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace rondo::io
