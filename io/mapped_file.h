#pragma once
// A file's bytes as memory: read as they are looked at, and given back to the system's cache.

#include <cstddef>
#include <span>
#include <string>

namespace rondo::io {

class MappedFile {
 public:
  /// Throws IoError naming the file when it cannot be read or is no regular file. Whoever shortens
  /// the file while it is mapped ends this process (SIGBUS); replacing it does no harm.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rondo::io
