#pragma once
// rondo's own environment variables with values. On/off switches are in tensor/environment.h.

#include <chrono>
#include <filesystem>
#include <optional>

namespace rondo::dist {

/// The variable's value; empty if it is not set. Throws CommError that names the variable if the
/// value is not a number of seconds from `least` to a million.
std::optional<std::chrono::milliseconds> seconds_from_environment(const char* variable,
                                                                  double least);

/// The folder that the variable names; it is created if it does not exist. Empty if the variable is
/// not set. Throws IoError that names the variable if the folder is not writable.
std::filesystem::path folder_from_environment(const char* variable);

}  // namespace rondo::dist
