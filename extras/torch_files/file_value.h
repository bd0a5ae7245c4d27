#pragma once
// FileValue: a value in a pickle, with its path in the file for messages. Internal to
// extras/torch_files.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "extras/torch_files/pickle.h"
#include "extras/torch_files/torch_values.h"
#include "tensor/error.h"

namespace rondo::io::detail {

/// The functions throw IoError naming the file and the path if the value is not what they return.
struct FileValue {
  const std::string& file;
  std::string name;
  const PickleValue* value;

  template <class T>
  const T& as(const char* what) const {
    const T* typed = value->as<T>();
    require<IoError>(typed != nullptr, file, ": ", name, " is not a ", what);
    return *typed;
  }
  std::optional<FileValue> find(const std::string& key) const {
    for (const auto& [own, part] : as<PickleDict>("dict").items)
      if (key_text(own) == key) return FileValue{file, concat(name, '.', key), part};
    return std::nullopt;
  }
  FileValue at(const std::string& key) const {
    const auto found = find(key);
    require<IoError>(found.has_value(), file, ": ", name, " has no ", key);
    return *found;
  }
  std::vector<FileValue> items() const {
    std::vector<FileValue> all;
    for (const PickleValue* item : as<PickleSequence>("list").items)
      all.push_back({file, concat(name, '.', all.size()), item});
    return all;
  }
  std::optional<double> number() const {
    if (const auto* real = value->as<double>()) return *real;
    if (const auto* integer = value->as<std::int64_t>()) return static_cast<double>(*integer);
    if (const auto* truth = value->as<bool>()) return *truth ? 1 : 0;
    return std::nullopt;
  }
  double require_number() const {
    const auto own = number();
    require<IoError>(own.has_value(), file, ": ", name, " is not a number");
    return *own;
  }
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const FileValue& item : items()) all.push_back(item.require_number());
    return all;
  }
};

}  // namespace rondo::io::detail
