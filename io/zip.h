#pragma once
// Zip archives of a few large files, in memory: the container of torch.save's format. Uses
// libarchive, which supports the many variants of zip (64-bit sizes, sizes after the data,
// compression).

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "io/atomic_file.h"

struct archive;

namespace rondo::io {

/// Iterates over the files of an archive in its order. Throws IoError "FILE: …" for data that is
/// not a zip archive, is truncated, has wrong checksums, or uses a compression other than deflate:
/// files of weights use no other, and its compression ratio is bounded. A checksum of 0 means that
/// PyTorch has written none.
class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, std::string file);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// Gets the name of the next file; false after the last one.
  bool next(std::string& name);
  /// The size that the archive declares for the file; 0: not declared.
  std::size_t size() const { return size_; }
  /// Reads the contents, exactly `bytes` bytes. Throws IoError if there are more or fewer.
  void read(void* to, std::size_t bytes);
  /// Reads a text of at most `most` bytes.
  std::string read_text(std::size_t most);

 private:
  std::size_t read_some(void* to, std::size_t bytes);
  std::string file_, name_;
  std::size_t size_ = 0;
  archive* archive_;
};

/// Writes an archive without compression into a file that the caller commits.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  void add(const std::string& name, const void* data, std::size_t bytes);
  /// Writes the table at the end. Throws IoError, as add does, if the file cannot be written.
  void finish();

 private:
  void check(long status) const;
  struct Sink {
    AtomicFile& file;
    std::string error;
  } sink_;
  archive* archive_;
};

}  // namespace rondo::io
