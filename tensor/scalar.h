#pragma once
// Scalar: one number on its way into a kernel: a double, a 64-bit integer or a bool.

#include <concepts>
#include <cstdint>
#include <variant>

#include "tensor/dtype.h"

namespace rondo {

class Scalar {
 public:
  Scalar(bool value) : value_(value) {}
  template <std::integral T>
  Scalar(T value) : value_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point T>
  Scalar(T value) : value_(static_cast<double>(value)) {}

  /// The number as T; an f64 goes to an integer by truncation.
  template <class T>
  T to() const {
    return std::visit([](auto v) { return static_cast<T>(v); }, value_);
  }
  /// boolean, i64 or f64: the category that type promotion looks at.
  DType dtype() const {
    constexpr DType kinds[] = {DType::f64, DType::i64, DType::boolean};
    return kinds[value_.index()];
  }

 private:
  std::variant<double, std::int64_t, bool> value_;
};

}  // namespace rondo
