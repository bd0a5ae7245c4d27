#include "io/zip.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "tensor/error.h"

namespace rondo::io {
namespace {

/// The size of the pieces for libarchive: it computes checksums with zlib's crc32, whose length has
/// 32 bits.
constexpr std::size_t piece_bytes = std::size_t{1} << 30;

/// How libarchive ends its message about a checksum if the file has 0 in its place.
constexpr std::string_view no_crc32 = " should be 0x0";

/// libarchive converts names to the character set of the locale; the default locale supports only
/// ASCII.
class Utf8Names {
 public:
  Utf8Names() : utf8_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (utf8_ != nullptr) before_ = uselocale(utf8_);
  }
  ~Utf8Names() {
    if (utf8_ == nullptr) return;
    uselocale(before_);
    freelocale(utf8_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

 private:
  locale_t utf8_, before_ = nullptr;
};

}  // namespace

ZipReader::ZipReader(std::span<const std::byte> bytes, std::string file)
    : file_(std::move(file)), archive_(archive_read_new()) {
  archive_read_support_format_zip_seekable(archive_);
  if (archive_read_open_memory2(archive_, bytes.data(), bytes.size(), piece_bytes) != ARCHIVE_OK) {
    // libarchive searches for the directory at the end of the file.
    std::string text =
        concat(file_, ": is cut short or damaged: it is a zip archive without its directory");
    archive_read_free(archive_);
    throw IoError(text);
  }
}

ZipReader::~ZipReader() { archive_read_free(archive_); }

bool ZipReader::next(std::string& name) {
  const Utf8Names guard;
  archive_entry* entry = nullptr;
  const int status = archive_read_next_header(archive_, &entry);
  if (status == ARCHIVE_EOF) return false;
  const char* reason = archive_error_string(archive_);
  require<IoError>(status == ARCHIVE_OK || status == ARCHIVE_WARN, file_,
                   ": is not a readable zip archive (", reason != nullptr ? reason : "unknown",
                   ")");
  const char* path = archive_entry_pathname(entry);
  require<IoError>(path != nullptr, file_, ": has a file whose name cannot be read");
  name = name_ = path;
  size_ = archive_entry_size_is_set(entry) != 0
              ? static_cast<std::size_t>(std::max<la_int64_t>(archive_entry_size(entry), 0))
              : 0;
  const std::string_view format(archive_format_name(archive_));
  require<IoError>(format.find("uncompressed") != std::string_view::npos ||
                       format.find("deflation") != std::string_view::npos,
                   file_, ": ", name_, " uses an unsupported compression (", format, ")");
  return true;
}

std::size_t ZipReader::read_some(void* to, std::size_t bytes) {
  const auto got = archive_read_data(archive_, to, bytes);
  const char* reason = archive_error_string(archive_);
  // After torch.serialization.set_crc32_options(False), PyTorch writes 0 instead of each checksum.
  // At the end of the data libarchive 3.6 warns, and 3.7 fails; both continue with the next file.
  if (got < 0 && got != ARCHIVE_FATAL &&
      std::string_view(reason != nullptr ? reason : "").ends_with(no_crc32))
    return 0;
  require<IoError>(got >= 0, file_, ": damaged or cut short in ", name_, " (",
                   reason != nullptr ? reason : "unknown", ")");
  return static_cast<std::size_t>(got);
}

void ZipReader::read(void* to, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t got = read_some(static_cast<char*>(to) + done, bytes - done);
    require<IoError>(got > 0, file_, ": ", name_, " has ", done, " bytes, but ", bytes,
                     " are needed");
    done += got;
  }
  char more = 0;  // reading the end verifies the checksum
  require<IoError>(read_some(&more, 1) == 0, file_, ": ", name_, " has more than the ", bytes,
                   " bytes that are needed");
}

std::string ZipReader::read_text(std::size_t most) {
  std::string text;
  if (size_ > 0 && size_ <= most) {
    text.resize(size_);
    read(text.data(), size_);
    return text;
  }
  while (true) {
    const std::size_t step = std::size_t{1} << 16, had = text.size();
    text.resize(had + step);
    text.resize(had + read_some(text.data() + had, step));
    if (text.size() == had) return text;
    require<IoError>(text.size() <= most, file_, ": ", name_, " has more than ", most, " bytes");
  }
}

ZipWriter::ZipWriter(AtomicFile& file)
    : sink_{.file = file, .error = {}}, archive_(archive_write_new()) {
  archive_write_set_format_zip(archive_);
  archive_write_zip_set_compression_store(archive_);
  archive_write_set_bytes_in_last_block(archive_, 1);  // no padding after the directory
  const auto write = [](archive* a, void* data, const void* bytes, std::size_t n) -> la_ssize_t {
    auto* sink = static_cast<Sink*>(data);
    try {
      sink->file.write(bytes, n);
      return static_cast<la_ssize_t>(n);
    } catch (const IoError& error) {
      sink->error = error.what();
      archive_set_error(a, EIO, "%s", error.what());
      return -1;
    }
  };
  check(archive_write_open(archive_, &sink_, nullptr, write, nullptr));
}

ZipWriter::~ZipWriter() { archive_write_free(archive_); }

void ZipWriter::check(long status) const {
  if (status >= ARCHIVE_OK) return;
  if (!sink_.error.empty()) throw IoError(sink_.error);
  const char* reason = archive_error_string(archive_);
  throw IoError(concat("a zip archive cannot be written: ", reason ? reason : "unknown"));
}

void ZipWriter::add(const std::string& name, const void* data, std::size_t bytes) {
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, name.c_str());
  archive_entry_set_size(entry, static_cast<la_int64_t>(bytes));
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_perm(entry, 0644);
  const int status = archive_write_header(archive_, entry);
  archive_entry_free(entry);
  check(status);
  for (std::size_t done = 0; done < bytes;) {
    const auto n = archive_write_data(archive_, static_cast<const char*>(data) + done,
                                      std::min(bytes - done, piece_bytes));
    check(n > 0 ? ARCHIVE_OK : ARCHIVE_FATAL);
    done += static_cast<std::size_t>(n);
  }
}

void ZipWriter::finish() { check(archive_write_close(archive_)); }

}  // namespace rondo::io
