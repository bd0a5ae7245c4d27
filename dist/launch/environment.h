#pragma once
// Settings of rondo's own in the environment; switches are in tensor/environment.h.

#include <chrono>
#include <filesystem>
#include <optional>

namespace rondo::dist {

/// The variable's value; nothing where it is not set. Throws CommError naming it when that is no
/// number of seconds from `least` to a million.
std::optional<std::chrono::milliseconds> seconds_from_environment(const char* variable,
                                                                  double least);

/// The folder that the variable names, which is made if it is not there; empty where it is not set.
/// Throws IoError naming it when nothing can be written there.
std::filesystem::path folder_from_environment(const char* variable);

}  // namespace rondo::dist
