#pragma once
// Zip archives of a few large files, in memory: the outside of what torch.save writes. Through
// libarchive, which knows zip's many forms (64-bit sizes, sizes behind the data, compression).

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "io/atomic_file.h"

struct archive;

namespace rondo::io {

/// Goes through the files of an archive in its order. Throws IoError "FILE: …" for what is no zip
/// archive, is cut short, whose checksums are wrong, or in which something is compressed other than
/// by deflate: that is all that is met in files of weights, and its gain has a bound.
class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, std::string file);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// The next file's name; false: there is none.
  bool next(std::string& name);
  /// How many bytes the archive says that it has; 0: it does not say.
  std::size_t size() const { return size_; }
  /// Its contents, all `bytes` of them. Throws IoError when it has more or fewer.
  void read(void* to, std::size_t bytes);
  /// The same of a text of `most` bytes at most.
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
  /// The table at the end. Throws IoError, as add does, when the file cannot be written.
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
