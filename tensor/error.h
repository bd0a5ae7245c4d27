#pragma once
// Errors: every failure in rondo is an exception derived from rondo::Error, with one clear sentence
// as its message.
//
// A function states its preconditions with `require(cond, parts...)`. The parts are formatted only
// when the condition fails. The library never calls exit or abort.

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rondo {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// Appends " (in PLACE)" to the message, unless it has a place: the first one is the innermost.
  void add_place(const std::string& place);

 private:
  bool has_place_ = false;
};
/// Sizes, ranks or indices that do not fit together.
struct ShapeError : Error {
  using Error::Error;
};
/// An operation that does not support the given dtype, or two dtypes that should be equal but are
/// not.
struct DTypeError : Error {
  using Error::Error;
};
/// A device that does not exist, or tensors on different devices.
struct DeviceError : Error {
  using Error::Error;
};
/// Misuse of the tape: a saved tensor was modified, the graph was freed, or a leaf was written in
/// place.
struct AutogradError : Error {
  using Error::Error;
};
/// A failure of a collective or a rank, or an invalid launcher environment.
struct CommError : Error {
  using Error::Error;
};
/// A file that is missing, truncated, corrupt or not of the expected kind.
struct IoError : Error {
  using Error::Error;
};

namespace detail {

/// One part of a message: anything with an operator<<. Numbers are copied; for larger objects a
/// pointer is kept. So a message costs its caller only a small array, not a stream (streams took
/// half of the compile time of error messages).
class Part {
 public:
  Part(const char* text) : Part(std::string_view(text != nullptr ? text : "(null)")) {}
  Part(std::string_view text) : print_(print_text), length_(text.size()) {
    value_.at = text.data();
  }
  Part(const std::string& text) : Part(std::string_view(text)) {}
  Part(char value) : print_(print_character) { value_.integer = value; }
  Part(signed char value) : Part(static_cast<char>(value)) {}
  Part(unsigned char value) : Part(static_cast<char>(value)) {}
  Part(const std::signed_integral auto& value) : print_(print_integer) { value_.integer = value; }
  Part(const std::unsigned_integral auto& value) : print_(print_natural) { value_.natural = value; }
  Part(const std::floating_point auto& value) : print_(print_real) { value_.real = value; }
  template <class T>
  Part(const T& value)
      : print_([](std::ostream& out, const Part& part) {
          out << *static_cast<const T*>(part.value_.at);
        }) {
    value_.at = std::addressof(value);
  }
  void print(std::ostream& out) const { print_(out, *this); }

 private:
  using Print = void(std::ostream& out, const Part& part);
  static Print print_text, print_character, print_integer, print_natural, print_real;

  Print* print_;
  union {
    const void* at;
    long long integer;
    unsigned long long natural;
    double real;
  } value_;
  std::size_t length_ = 0;
};

std::string concat(std::initializer_list<Part> parts);
/// The same, beginning with the op that the user called: "lerp: shapes …", or, of an op inside it,
/// "lerp: sub: bool minus f32 …".
std::string message(std::initializer_list<Part> parts);

/// A separate function, so that callers of require stay small.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void fail(std::initializer_list<Part> parts) {
  throw E(message(parts));
}

}  // namespace detail

/// The parts in order, as operator<< prints them.
template <class... Parts>
std::string concat(const Parts&... parts) {
  return detail::concat({detail::Part(parts)...});
}

/// Throws E with the concatenated parts unless `condition` holds.
template <class E = Error, class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    detail::fail<E>({detail::Part(parts)...});
}

}  // namespace rondo
