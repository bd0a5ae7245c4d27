#pragma once
// Pickle: Python's format for objects, as far as files of weights need it, and without running
// anything.
//
// A pickle is a program for a machine with a stack: "push this text", "make a dict of what is above
// the mark", "import this name", "call it". Python's own reader calls whatever the file names, so
// that opening a file of weights can run any code. This reader has no functions: a call becomes a
// value that says what would be called with what, and only names that the caller of parse_pickle
// allows may be in the file at all. Opcodes that state dicts do not need are refused by name.
//
// The opcodes are those of protocols 0 to 5 as Python's pickletools describes them. Any bytes give
// a value or an IoError.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rondo::io {

struct PickleValue;

struct PickleNone {};
/// A name that was imported: "torch.FloatStorage".
struct PickleGlobal {
  std::string name;
};
struct PickleSequence {
  std::vector<const PickleValue*> items;
  bool is_tuple = false;
};
/// A dict, or a collections.OrderedDict, in the order of the file.
struct PickleDict {
  std::vector<std::pair<const PickleValue*, const PickleValue*>> items;
};
/// What Python would have called; both stay what they were, however often that is.
struct PickleCall {
  const PickleGlobal* function;
  const PickleSequence* arguments;
};
/// Something outside of the pickle, known by this id: storages of tensors.
struct PicklePersistent {
  const PickleValue* id;
};
/// Bytes, and integers of more than 64 bits.
struct PickleBytes {
  std::string bytes;
};

struct PickleValue {
  std::variant<PickleNone, bool, std::int64_t, double, std::string, PickleGlobal, PickleSequence,
               PickleDict, PickleCall, PicklePersistent, PickleBytes>
      value;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

/// An object, and the owner of all of its parts. They may contain each other in a circle.
struct Pickle {
  const PickleValue* root = nullptr;
  std::size_t bytes = 0;  // that it took
  std::deque<PickleValue> parts;
};

/// The object at the beginning of `bytes`. Throws IoError "FILE: …": an opcode or a global (like
/// "os.system") that is not allowed, by name; anything that is no pickle.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::set<std::string>& globals,
                    const std::string& file);

}  // namespace rondo::io
