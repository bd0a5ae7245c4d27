// Tar archives through libarchive, and checksums through libcrypto.

#include <archive.h>
#include <archive_entry.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <memory>
#include <optional>

#include "data/download.h"
#include "data/files.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

struct Closer {
  void operator()(archive* a) const { archive_read_free(a); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Reader = std::unique_ptr<archive, Closer>;

/// A path that stays inside the folder it is appended to; nothing where it would not.
std::optional<fs::path> inside(const char* name) {
  const fs::path path = fs::path(name ? name : "").lexically_normal();
  if (path.empty() || path.is_absolute()) return std::nullopt;
  if (*path.begin() == "..") return std::nullopt;
  return path;
}

void write_entry(archive* reader, const fs::path& source, const fs::path& target) {
  make_folder(target.parent_path());
  std::ofstream out(target, std::ios::binary | std::ios::trunc);
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const auto got = archive_read_data(reader, buffer.data(), buffer.size());
    const char* reason = archive_error_string(reader);
    require<IoError>(got >= 0, source.string(), ": damaged or cut short in ",
                     target.filename().string(), " (", reason ? reason : "unknown", ")");
    if (got == 0) break;
    out.write(buffer.data(), got);
  }
  out.close();
  require<IoError>(out.good(), target.string(), ": cannot be written (disk full?)");
}

}  // namespace

void unpack(const fs::path& source, const fs::path& into) {
  size_of_file(source);
  const Reader reader(archive_read_new());
  // Not all that libarchive knows: of those it runs some as programs, and the dictionary of others
  // may be gigabytes.
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_bzip2(reader.get());
  archive_read_support_format_tar(reader.get());
  auto check = [&](int status) {
    const char* reason = archive_error_string(reader.get());
    require<IoError>(status == ARCHIVE_OK || status == ARCHIVE_WARN, source.string(),
                     ": not an archive that can be read (", reason ? reason : "unknown", ")");
  };
  check(archive_read_open_filename(reader.get(), source.c_str(), 1 << 16));
  archive_entry* entry = nullptr;
  for (int status; (status = archive_read_next_header(reader.get(), &entry)) != ARCHIVE_EOF;) {
    check(status);
    const char* name = archive_entry_pathname(entry);
    const auto path = inside(name);
    require<IoError>(path.has_value(), source.string(), ": entry '", name ? name : "",
                     "' would be written outside of the folder it is unpacked to");
    const auto type = archive_entry_filetype(entry);
    const bool plain = archive_entry_hardlink(entry) == nullptr;
    require<IoError>(plain && (type == AE_IFREG || type == AE_IFDIR), source.string(), ": entry '",
                     name, "' is neither a file nor a folder");
    if (type == AE_IFDIR) {
      make_folder(into / *path);
    } else {
      write_entry(reader.get(), source, into / *path);
    }
  }
}

std::string checksum_of(const fs::path& file, const std::string& like) {
  require((like.size() == 8 || like.size() == 32 || like.size() == 64) &&
              like.find_first_not_of("0123456789abcdef") == std::string::npos,
          "checksum '", like, "' is neither md5 (32 digits) nor sha256 (64, or its first 8)");
  size_of_file(file);
  std::ifstream in(file, std::ios::binary);
  require<IoError>(in.good(), file.string(), ": cannot be opened");
  const std::unique_ptr<EVP_MD_CTX, Closer> context(EVP_MD_CTX_new());
  require(
      EVP_DigestInit_ex(context.get(), like.size() == 32 ? EVP_md5() : EVP_sha256(), nullptr) == 1,
      "libcrypto does not offer ", like.size() == 32 ? "md5" : "sha256");
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
  return text.substr(0, like.size());
}

}  // namespace rondo::data
