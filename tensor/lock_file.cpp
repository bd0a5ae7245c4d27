#include "tensor/lock_file.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tensor/error.h"

namespace rondo {
namespace {

/// "process 4711 (classifier) on node7", from the first line of the file. The holder may have
/// locked the file without having written to it yet.
std::string holder_of(const OwnFile& file) {
  std::array<char, 200> text{};
  const ssize_t n = ::pread(file.descriptor(), text.data(), text.size(), 0);
  std::string holder(text.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  holder = holder.substr(0, holder.find('\n'));
  const bool is_text = std::ranges::all_of(holder, [](char c) { return c >= ' ' && c <= '~'; });
  return holder.empty() || !is_text ? "another process" : holder;
}

void write_holder(OwnFile& file) {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  if (::ftruncate(file.descriptor(), 0) != 0) return;
  file.write(concat("process ", ::getpid(), " (", program_invocation_short_name, ") on ",
                    host.data(), '\n'));
}

int lock(const OwnFile& file, int operation) {
  int result;
  do {
    result = ::flock(file.descriptor(), operation);
  } while (result != 0 && errno == EINTR);
  return result;
}

OwnFile open_locked(const std::string& path, const std::string& what, LockFile::IfHeld if_held) {
  const bool waits = if_held == LockFile::IfHeld::wait;
  // Another process may remove or rename the file between our open and our lock. We would then hold
  // the lock of a file without a name, or with a different one.
  for (bool has_said = false;;) {
    OwnFile file(path, OwnFile::Mode::append, 0600);
    int result = lock(file, LOCK_EX | LOCK_NB);
    if (result != 0 && errno == EWOULDBLOCK) {
      const std::string sentence = concat(path, ": ", holder_of(file), " holds it: ", what);
      require<IoError>(waits, sentence);
      if (!has_said) std::fprintf(stderr, "waiting for %s\n", sentence.c_str());
      has_said = true;
      result = lock(file, LOCK_EX);
    }
    require<IoError>(result == 0 || !waits, path, ": cannot be locked: ", std::strerror(errno));
    struct stat ours {
    }, named{};
    if (::fstat(file.descriptor(), &ours) == 0 && ::lstat(path.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      write_holder(file);
      return file;
    }
  }
}

}  // namespace

LockFile::LockFile(const std::string& path, const std::string& what, IfHeld if_held)
    : file_(open_locked(path, what, if_held)) {}

LockFile::~LockFile() {
  if (home_.is_here()) ::unlink(file_.path().c_str());
}

}  // namespace rondo
