// A file of 4 GiB in an archive. It is slow because its checksum is verified. Input and output are
// a few pages of memory that are mapped repeatedly.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "io/zip.h"
#include "support/zip64.h"
#include "tensor/error.h"

namespace rondo {
namespace {

/// An address range without memory.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(data_ != MAP_FAILED, "mmap of ", bytes, " bytes failed");
  }
  ~Mapping() { ::munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* data() const { return static_cast<char*>(data_); }
  /// Maps all of it to one piece of memory, repeatedly: the piece that is written last remains.
  void repeat_one_piece() {
    constexpr std::size_t piece = std::size_t{1} << 22;
    const int memory = ::memfd_create("rondo-test", MFD_CLOEXEC);
    require(memory >= 0 && ::ftruncate(memory, piece) == 0, "memfd_create failed");
    for (std::size_t at = 0; at < bytes_; at += piece) {
      const void* mapped = ::mmap(data() + at, std::min(piece, bytes_ - at), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_FIXED, memory, 0);
      require(mapped != MAP_FAILED, "mmap failed");
    }
    ::close(memory);
  }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST(ZipSlow, ReadsFilesOf4GiB) {
  for (const std::uint64_t bytes :
       {(std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 100}) {
    const auto [head, tail] = test::zip64_around("zeros", bytes, test::crc_of_zeros(bytes));
    const Mapping archive(head.size() + bytes + tail.size());
    std::memcpy(archive.data(), head.data(), head.size());
    std::memcpy(archive.data() + head.size() + bytes, tail.data(), tail.size());
    Mapping contents(bytes);
    contents.repeat_one_piece();
    io::ZipReader zip(std::as_bytes(std::span(archive.data(), head.size() + bytes + tail.size())),
                      "a.zip");
    std::string name;
    ASSERT_TRUE(zip.next(name));
    EXPECT_EQ(zip.size(), bytes);
    EXPECT_NO_THROW(zip.read(contents.data(), bytes)) << bytes;
  }
}

}  // namespace
}  // namespace rondo
