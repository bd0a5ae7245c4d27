#pragma once
// The environment of tests: variables that are set for a scope, and the folder of real data.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace rondo::test {

/// Sets an environment variable, or unsets it, until the end of the scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    if (value) {
      setenv(name, value, 1);
    } else {
      unsetenv(name);
    }
  }
  ~Environment() {
    if (had_) {
      setenv(name_.c_str(), old_.c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_, old_;
  bool had_ = false;
};

/// The folder with the official data sets, if there is one.
inline std::filesystem::path real_data() {
  const char* folder = std::getenv("RONDO_DATA");
  return folder ? folder : "";
}

}  // namespace rondo::test
