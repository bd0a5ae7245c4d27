#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tensor/error.h"

namespace rondo::io {

int detail::open_to_read(const std::string& path, std::uint64_t& size) {
  require<IoError>(!path.empty(), "cannot read a file: its name is empty");
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe does not block
  require<IoError>(descriptor >= 0, "cannot read ", path, ": ", std::strerror(errno));
  struct stat info {};
  const bool is_known = ::fstat(descriptor, &info) == 0;
  if (!is_known || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    throw IoError(concat("cannot read ", path, ": it is ",
                         is_known && S_ISDIR(info.st_mode) ? "a folder, " : "",
                         "not a regular file"));
  }
  size = static_cast<std::uint64_t>(info.st_size);
  return descriptor;
}

MappedFile::MappedFile(const std::string& path) {
  std::uint64_t size = 0;
  const int descriptor = detail::open_to_read(path, size);
  void* data = nullptr;
  if (size > 0) data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);  // the mapping remains valid
  require<IoError>(data != MAP_FAILED, "cannot read ", path, ": ", std::strerror(reason));
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace rondo::io
