#pragma once
// On/off switches in environment variables.

#include <optional>

namespace rondo {

/// The value of a variable that is 1 or 0; nullopt if it is empty or not set. Throws Error naming
/// the variable if it has any other value.
std::optional<bool> flag_from_environment(const char* variable);

}  // namespace rondo
