#pragma once
// Checks that the readers make before they open files, and the creation of folders.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tensor/error.h"

namespace rondo::data {

/// The size of a regular file in bytes. Throws IoError naming the file if it is missing or not a
/// regular file.
inline std::int64_t size_of_file(const std::filesystem::path& file) {
  std::error_code error;
  require<IoError>(!file.empty(), "cannot read a file: its name is empty");
  const auto status = std::filesystem::status(file, error);
  require<IoError>(std::filesystem::exists(status), file.string(), ": no such file");
  require<IoError>(
      std::filesystem::is_regular_file(status), file.string(),
      std::filesystem::is_directory(status) ? ": is a folder, not a file" : ": not a file");
  const auto bytes = std::filesystem::file_size(file, error);
  require<IoError>(!error, file.string(), ": ", error.message());
  return static_cast<std::int64_t>(bytes);
}

/// Throws IoError saying why the path is not that of a folder.
inline void require_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  require<IoError>(!folder.empty(), "cannot read a folder: its name is empty");
  require<IoError>(
      std::filesystem::is_directory(folder, ignored), folder.string(),
      std::filesystem::exists(folder, ignored) ? ": is a file, not a folder" : ": no such folder");
}

/// The names of classes, one per line; `fallback` if the file does not exist. Throws IoError for
/// another number of names.
std::vector<std::string> read_class_names(const std::filesystem::path& file,
                                          const std::vector<std::string>& fallback);

/// Creates a folder and its parents. Throws IoError naming the folder and the reason.
inline void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<IoError>(!error, folder.string(), ": cannot be created (", error.message(), ")");
}

}  // namespace rondo::data
