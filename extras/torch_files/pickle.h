#pragma once
// Pickle: Python's format for objects, as far as files of weights need it, and without running
// anything.
//
// A pickle is a program for a machine with a stack: "push this text", "make a dict of what is above
// the mark", "import this name", "call it". Python's own reader calls whatever the file names, so
// that opening a file of weights can run any code. This reader has no functions: a name is a text,
// and a call becomes a value that says what would be called with what. So any name may be in the
// file: the caller of parse_pickle looks for the calls that it knows and takes no notice of others.
// Opcodes that no version of torch.save writes are refused by name.
//
// The opcodes are those of protocols 0 to 5 as Python's pickletools describes them. Any bytes give
// a value or an IoError.

#include <cstddef>
#include <cstdint>
#include <deque>
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
/// A list, a tuple or a set.
struct PickleSequence {
  std::vector<const PickleValue*> items;
  bool is_tuple = false;
};
/// A dict, a collections.OrderedDict or an object of a class derived from them, in the order of the
/// file.
struct PickleDict {
  std::vector<std::pair<const PickleValue*, const PickleValue*>> items;
};
/// What Python would have called: a function, or a class of which it would have made an object. An
/// object into which keys are put, or items, becomes a PickleDict or a PickleSequence: it is of a
/// class derived from dict or list.
struct PickleCall {
  const PickleValue* function;
  const PickleSequence* arguments;
  const PickleValue* state = nullptr;  // the object's attributes, if it was given any

  /// The function's name: "numpy.core.multiarray.scalar"; empty if it has none.
  std::string_view name() const;
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

/// The object at the beginning of `bytes`. Throws IoError "FILE: …" for an opcode that is not
/// known, by name, and for anything that is not a pickle.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& file);

}  // namespace rondo::io
