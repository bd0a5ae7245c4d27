#pragma once
// Makes small tar archives for tests, valid and malicious ones.

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <string>
#include <vector>

namespace rondo::test {

struct TarEntry {
  std::string path;
  std::string contents = {};
  unsigned type = AE_IFREG;
  std::string link = {};  // of AE_IFLNK
};

inline void write_tar_gz(const std::filesystem::path& file, const std::vector<TarEntry>& entries) {
  archive* out = archive_write_new();
  archive_write_add_filter_gzip(out);
  archive_write_set_format_ustar(out);
  archive_write_open_filename(out, file.c_str());
  for (const auto& [path, contents, type, link] : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, path.c_str());
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, type == AE_IFDIR ? 0755 : 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(contents.size()));
    if (!link.empty() && type == AE_IFLNK) archive_entry_set_symlink(entry, link.c_str());
    if (!link.empty() && type == AE_IFREG) archive_entry_set_hardlink(entry, link.c_str());
    archive_write_header(out, entry);
    archive_write_data(out, contents.data(), contents.size());
    archive_entry_free(entry);
  }
  archive_write_close(out);
  archive_write_free(out);
}

}  // namespace rondo::test
