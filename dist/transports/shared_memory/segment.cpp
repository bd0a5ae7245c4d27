#include "dist/transports/shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <sstream>

#include "dist/launch/host.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::size_t page = 4096;

[[noreturn]] void fail(const char* what, int error) {
  throw CommError(concat("shared memory: ", what, ": ", std::strerror(error)));
}

/// A random number that identifies this segment: in another container a different file may have the
/// same process and file number.
std::uint64_t random_token() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

/// Segments of this process, for its other threads.
struct SegmentRegistry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Segment>> by_name;
};
SegmentRegistry& registry() {
  static auto* all = new SegmentRegistry;  // never destroyed: statics may own segments
  return *all;
}

struct FileCloser {
  int file;
  ~FileCloser() { ::close(file); }
};

}  // namespace

Segment::Segment(int file, std::size_t bytes) : bytes_(bytes) {
  void* p = mmap(nullptr, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (p == MAP_FAILED) fail("mmap", errno);
  mapping_ = static_cast<char*>(p);
  data_ = mapping_ + page;
}

Segment::~Segment() {
  close();
  munmap(mapping_, page + bytes_);
}

std::shared_ptr<Segment> Segment::create(std::size_t bytes) {
  const int file = memfd_create("rondo", MFD_CLOEXEC);
  if (file < 0) fail("memfd_create", errno);
  if (ftruncate(file, static_cast<off_t>(page + bytes)) != 0) {
    const int error = errno;
    ::close(file);
    fail("ftruncate", error);
  }
  std::shared_ptr<Segment> segment;
  try {
    segment.reset(new Segment(file, bytes));
  } catch (...) {
    ::close(file);
    throw;
  }
  segment->file_ = file;
  const std::uint64_t token = random_token();
  std::memcpy(segment->mapping_, &token, sizeof token);
  segment->name_ = concat(getpid(), ' ', file, ' ', token, ' ', bytes, ' ', host());
  std::lock_guard lock(registry().mutex);
  registry().by_name[segment->name_] = segment;
  return segment;
}

std::shared_ptr<Segment> Segment::open(const std::string& name) {
  {
    std::lock_guard lock(registry().mutex);
    auto known = registry().by_name.find(name);
    if (known != registry().by_name.end()) {
      if (auto segment = known->second.lock()) return segment;
    }
  }
  std::istringstream text(name);
  pid_t process = 0;
  int number = 0;
  std::uint64_t token = 0;
  std::size_t bytes = 0;
  std::string machine;
  text >> process >> number >> token >> bytes >> std::ws;
  std::getline(text, machine);
  require<CommError>(machine == host(), "shared memory: the segment is on another machine, ",
                     machine);
  const std::string path = concat("/proc/", process, "/fd/", number);
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) fail(path.c_str(), errno);
  require<CommError>(S_ISREG(about.st_mode) && about.st_size == static_cast<off_t>(page + bytes),
                     "shared memory: ", path, " is not a segment of the expected size");
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) fail(path.c_str(), errno);
  const FileCloser closer{file};  // the mapping alone keeps the segment alive
  std::shared_ptr<Segment> segment(new Segment(file, bytes));
  std::uint64_t found = 0;
  std::memcpy(&found, segment->mapping_, sizeof found);
  require<CommError>(found == token, "shared memory: ", path, " is another segment");
  return segment;
}

void Segment::close() {
  if (file_ < 0) return;
  {
    std::lock_guard lock(registry().mutex);
    registry().by_name.erase(name_);
  }
  ::close(file_);
  file_ = -1;
}

}  // namespace rondo::dist
