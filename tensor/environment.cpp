#include "tensor/environment.h"

#include <cstdlib>
#include <string_view>

#include "tensor/error.h"

namespace rondo {

std::optional<bool> flag_from_environment(const char* variable) {
  const char* text = std::getenv(variable);
  const std::string_view value = text != nullptr ? text : "";
  // Not require: the error would begin with the op that happened to run first.
  if (!value.empty() && value != "0" && value != "1")
    throw Error(concat(variable, "=", value, " is neither 0 nor 1"));
  if (value.empty()) return {};
  return value == "1";
}

}  // namespace rondo
