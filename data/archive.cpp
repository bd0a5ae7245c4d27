// Tar archives through libarchive, and checksums through libcrypto.

#include <archive.h>
#include <archive_entry.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "data/download.h"
#include "data/files.h"
#include "tensor/own_file.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

struct Closer {
  void operator()(archive* a) const { archive_read_free(a); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Reader = std::unique_ptr<archive, Closer>;

/// A path that stays inside the folder it is appended to; nullopt if `name` would leave it.
std::optional<fs::path> inside(const char* name) {
  const fs::path path = fs::path(name ? name : "").lexically_normal();
  if (path.empty() || path.is_absolute()) return std::nullopt;
  if (*path.begin() == "..") return std::nullopt;
  return path;
}

/// Returns the number of bytes, which may be at most `left`.
std::int64_t write_entry(archive* reader, const fs::path& source, const fs::path& target,
                         std::int64_t left) {
  make_folder(target.parent_path());
  OwnFile out(target.string(), OwnFile::Mode::replace);
  std::int64_t written = 0;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const auto got = archive_read_data(reader, buffer.data(), buffer.size());
    const char* reason = archive_error_string(reader);
    require<IoError>(got >= 0, source, ": damaged or cut short in ", target.filename().string(),
                     " (", reason ? reason : "unknown", ")");
    if (got == 0 || (written += got) > left) return written;
    out.write({buffer.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace

void unpack(const std::string& source, const std::string& into, std::int64_t limit) {
  size_of_file(source);
  const Reader reader(archive_read_new());
  // Not all filters of libarchive: it runs some as external programs, and others may use gigabytes
  // for a dictionary.
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_bzip2(reader.get());
  archive_read_support_format_tar(reader.get());
  auto check = [&](int status) {
    const char* reason = archive_error_string(reader.get());
    require<IoError>(status == ARCHIVE_OK || status == ARCHIVE_WARN, source,
                     ": not an archive that can be read (", reason ? reason : "unknown", ")");
  };
  check(archive_read_open_filename(reader.get(), source.c_str(), 1 << 16));
  archive_entry* entry = nullptr;
  std::int64_t left = limit;
  for (int status; (status = archive_read_next_header(reader.get(), &entry)) != ARCHIVE_EOF;) {
    check(status);
    const char* name = archive_entry_pathname(entry);
    const auto path = inside(name);
    require<IoError>(path.has_value(), source, ": entry '", name ? name : "",
                     "' would be written outside of the folder it is unpacked to");
    const fs::path target = fs::path(into) / *path;
    const auto type = archive_entry_filetype(entry);
    const bool plain = archive_entry_hardlink(entry) == nullptr;
    require<IoError>(plain && (type == AE_IFREG || type == AE_IFDIR), source, ": entry '", name,
                     "' is neither a file nor a folder");
    std::int64_t bytes = 0;
    if (type == AE_IFDIR) {
      make_folder(target);
    } else {
      bytes = write_entry(reader.get(), source, target, left);
    }
    left -= std::max<std::int64_t>(bytes, 4096);
    require<IoError>(left >= 0, source, ": unpacks to more than the ", limit,
                     " bytes that are expected of it, at entry '", name,
                     "'; remove it if it is not the right archive");
  }
}

std::string sha256_of(const std::string& file) {
  size_of_file(file);
  std::ifstream in(file, std::ios::binary);
  require<IoError>(in.good(), file, ": cannot be opened");
  const std::unique_ptr<EVP_MD_CTX, Closer> context(EVP_MD_CTX_new());
  require(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
          "libcrypto does not offer SHA-256");
  std::array<char, 1 << 16> buffer;
  while (in.read(buffer.data(), buffer.size()), in.gcount() > 0) {
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(in.gcount()));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

}  // namespace rondo::data
