#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tensor/error.h"

namespace rondo::io {

MappedFile::MappedFile(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require<IoError>(descriptor >= 0, "cannot read ", path, ": ", std::strerror(errno));
  struct stat info {};
  const bool is_regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  void* data = nullptr;
  if (is_regular && info.st_size > 0)
    data = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE,
                  descriptor, 0);
  const int reason = errno;
  ::close(descriptor);  // the mapping remains valid
  require<IoError>(is_regular, "cannot read ", path, ": it is not a regular file");
  require<IoError>(data != MAP_FAILED, "cannot read ", path, ": ", std::strerror(reason));
  data_ = static_cast<const std::byte*>(data);
  size_ = static_cast<std::size_t>(info.st_size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace rondo::io
