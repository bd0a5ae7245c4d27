#pragma once
// Pickle: reads Python's format for objects, as far as files of weights need it, and without
// running any code.
//
// A pickle is a program for a stack machine: "push this text", "make a dict of everything above the
// mark", "import this name", "call it". Python's own reader calls whatever the file names, so
// opening a file of weights can run any code. This reader has no functions. A name is stored as a
// text, and a call becomes a value that records the function and its arguments. So any name may be
// in the file; the caller of parse_pickle looks for the calls that it knows and ignores the others.
// An opcode that no version of torch.save writes is an error that names the opcode.
//
// The opcodes are those of protocols 0 to 5 as described by Python's pickletools. Any input gives a
// value or an IoError.

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
/// An imported name: "torch.FloatStorage".
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
/// A call that Python would have made: of a function, or of a class to create an object. An object
/// that gets keys or items becomes a PickleDict or a PickleSequence, because its class is derived
/// from dict or list.
struct PickleCall {
  const PickleValue* function;
  const PickleSequence* arguments;
  const PickleValue* state = nullptr;  // the attributes of the object, if it has any

  /// The function's name: "numpy.core.multiarray.scalar"; empty if it has none.
  std::string_view name() const;
};
/// A reference to something outside the pickle, by its id: storages of tensors.
struct PicklePersistent {
  const PickleValue* id;
};
/// Bytes, or an integer of more than 64 bits.
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

/// An object, and the owner of all its parts. Parts may refer to each other in a cycle.
struct Pickle {
  const PickleValue* root = nullptr;
  std::size_t bytes = 0;  // the length of the pickle
  std::deque<PickleValue> parts;
};

/// The object at the start of `bytes`. Throws IoError "FILE: …" naming an unsupported opcode, and
/// for any data that is not a pickle.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& file);

}  // namespace rondo::io
