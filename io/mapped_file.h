#pragma once
// MappedFile: a file mapped into memory. The system loads pages when they are read, and can drop
// them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rondo::io {

class MappedFile {
 public:
  /// Throws IoError naming the file if it cannot be read or is not a regular file. If another
  /// process truncates the file while it is mapped, this process ends with SIGBUS; replacing the
  /// file is harmless.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {
/// Opens a regular file for reading and sets `size` to its bytes. Returns the descriptor. Throws
/// IoError that says why the file cannot be read.
int open_to_read(const std::string& path, std::uint64_t& size);
}  // namespace detail

}  // namespace rondo::io
