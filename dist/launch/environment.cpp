#include "dist/launch/environment.h"

#include <unistd.h>

#include <cerrno>
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

std::filesystem::path folder_from_environment(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == 0) return {};
  std::error_code error;
  std::filesystem::create_directories(text, error);
  if (!error && access(text, W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  require<IoError>(!error, variable, "=", text, ": cannot write to this folder: ", error.message());
  return text;
}

}  // namespace rondo::dist
