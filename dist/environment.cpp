#include "dist/environment.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "tensor/error.h"

namespace rondo::dist {

std::optional<std::chrono::milliseconds> seconds_from_environment(const char* variable,
                                                                  double least) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return {};
  double seconds = 0;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), seconds);
  require<CommError>(error == std::errc() && end == view.data() + view.size() && seconds >= least &&
                         seconds <= 1e6,
                     variable, " is \"", text, "\", not a number of seconds from ", least,
                     " to 1000000");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace rondo::dist
