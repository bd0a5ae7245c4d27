#pragma once
// Settings: reads a schedule's settings from its saved state. Errors name the schedule and the
// setting.

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensor/error.h"

namespace rondo::optim::detail {

struct Settings {
  const char* type;
  const std::map<std::string, std::vector<double>>& values;

  const std::vector<double>& list(const char* key) const {
    auto it = values.find(key);
    require(it != values.end(), type, ".load_state_dict: the state has no ", key);
    return it->second;
  }
  double number(const char* key) const {
    const auto& v = list(key);
    require(v.size() == 1, type, ".load_state_dict: ", key, " has ", v.size(), " values, not one");
    return v[0];
  }
  /// The value must be exactly representable, so below 2^53.
  std::int64_t integer(const char* key) const { return as_integer(key, number(key)); }
  std::vector<std::int64_t> integers(const char* key) const {
    std::vector<std::int64_t> result;
    for (double v : list(key)) result.push_back(as_integer(key, v));
    return result;
  }
  /// A value of an enumeration of `count` values.
  template <class Enum>
  Enum choice(const char* key, std::int64_t count) const {
    const std::int64_t i = integer(key);
    require(i >= 0 && i < count, type, ".load_state_dict: ", key, " is ", i, ", but must be below ",
            count);
    return static_cast<Enum>(i);
  }

 private:
  std::int64_t as_integer(const char* key, double v) const {
    require(std::trunc(v) == v && std::abs(v) < 0x1p53, type, ".load_state_dict: ", key, " is ", v,
            ", not an integer");
    return static_cast<std::int64_t>(v);
  }
};

inline std::vector<double> doubles(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace rondo::optim::detail
