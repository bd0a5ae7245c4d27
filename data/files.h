#pragma once
// What the readers ask about files before they open them, and the folders they make.

#include <cstdint>
#include <filesystem>

#include "tensor/error.h"

namespace rondo::data {

/// Bytes of a regular file; throws IoError naming it when it is missing or something else.
inline std::int64_t size_of_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  require<IoError>(std::filesystem::exists(status), file.string(), ": no such file");
  require<IoError>(std::filesystem::is_regular_file(status), file.string(), ": not a file");
  const auto bytes = std::filesystem::file_size(file, error);
  require<IoError>(!error, file.string(), ": ", error.message());
  return static_cast<std::int64_t>(bytes);
}

/// Makes a folder and those above it; throws IoError naming it and the reason.
inline void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<IoError>(!error, folder.string(), ": cannot be created (", error.message(), ")");
}

}  // namespace rondo::data
