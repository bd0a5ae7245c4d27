#pragma once
// Switches in the environment.

#include <optional>

namespace rondo {

/// Whether the variable is 1 or 0; nothing where it is empty or not set. Throws Error naming it
/// when it is something else.
std::optional<bool> flag_from_environment(const char* variable);

}  // namespace rondo
