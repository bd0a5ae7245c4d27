#pragma once
// Errors: every failure in rondo is an exception derived from rondo::Error, with one clear
// sentence.
//
// `require(cond, parts...)` is how a function states its precondition; the parts are only formatted
// when the condition fails. The library never calls exit or abort.

#include <sstream>
#include <stdexcept>
#include <string>

namespace rondo {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Sizes, ranks or indices that do not fit together.
struct ShapeError : Error {
  using Error::Error;
};
/// An operation that the given dtype does not have, or two dtypes that should be equal and are not.
struct DTypeError : Error {
  using Error::Error;
};
/// A device that does not exist here, or tensors on two different ones.
struct DeviceError : Error {
  using Error::Error;
};
/// Misuse of the tape: a saved tensor was modified, the graph was freed, a leaf was written in
/// place.
struct AutogradError : Error {
  using Error::Error;
};
/// A collective, a rank, a launcher's environment.
struct CommError : Error {
  using Error::Error;
};
/// A file that is missing, cut short, corrupt or not what it should be.
struct IoError : Error {
  using Error::Error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// Throws E with the concatenated parts unless `condition` holds.
template <class E = Error, class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw E(concat(parts...));
}

}  // namespace rondo
