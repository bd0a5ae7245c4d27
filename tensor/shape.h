#pragma once
// Dims: the sizes or strides of a tensor, stored inline (no heap) for up to eight dimensions.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

#include "tensor/dtype.h"
#include "tensor/error.h"

namespace rondo {

class Dims {
 public:
  static constexpr std::int64_t max_rank = 8;

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(values.begin(), values.end()) {}
  /// One dimension, so that ones(3) and x.sum(1) work as in Python.
  template <IntegerNotBool T>
  Dims(T value) {
    push_back(static_cast<std::int64_t>(value));
  }
  Dims(std::span<const std::int64_t> values) : Dims(values.begin(), values.end()) {}
  template <class Iterator>
  Dims(Iterator first, Iterator last) {
    for (; first != last; ++first) push_back(*first);
  }
  /// `rank` entries, all equal to `value`.
  static Dims filled(std::int64_t rank, std::int64_t value) {
    Dims dims;
    for (std::int64_t i = 0; i < rank; ++i) dims.push_back(value);
    return dims;
  }

  std::int64_t size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  /// Negative positions count from the end. Throws ShapeError for one that does not exist.
  std::int64_t operator[](std::int64_t i) const { return values_[place(i)]; }
  std::int64_t& operator[](std::int64_t i) { return values_[place(i)]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + rank_; }
  std::int64_t* begin() { return values_.data(); }
  std::int64_t* end() { return values_.data() + rank_; }
  std::int64_t front() const { return (*this)[0]; }
  std::int64_t back() const { return (*this)[-1]; }
  /// `const auto [b, c, h, w] = x.shape().to<4>();`. Throws ShapeError if there are not n.
  template <std::size_t n>
  std::array<std::int64_t, n> to() const {
    require_size(static_cast<std::int64_t>(n));
    std::array<std::int64_t, n> values;
    std::copy(begin(), end(), values.begin());
    return values;
  }

  void push_back(std::int64_t value) {
    require<ShapeError>(rank_ < max_rank, "a tensor has at most ", max_rank, " dimensions");
    values_[static_cast<std::size_t>(rank_++)] = value;
  }
  void insert(std::int64_t position, std::int64_t value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  void erase(std::int64_t position) {
    std::copy(begin() + position + 1, end(), begin() + position);
    --rank_;
  }

  bool operator==(const Dims& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::size_t place(std::int64_t i) const {
    const std::int64_t at = i < 0 ? i + rank_ : i;
    if (at < 0 || at >= rank_) fail_position(i);
    return static_cast<std::size_t>(at);
  }
  [[noreturn, gnu::cold]] void fail_position(std::int64_t i) const;
  void require_size(std::int64_t n) const;

  std::array<std::int64_t, max_rank> values_{};
  std::int64_t rank_ = 0;
};

/// true or false, and nothing else that converts to bool: x.sum(1, 2), without the braces around
/// two dimensions, would be x.sum(1, true).
class Flag {
 public:
  template <std::same_as<bool> T>
  constexpr Flag(T value) : value_(value) {}
  constexpr operator bool() const { return value_; }

 private:
  bool value_;
};

/// Writes [2, 3, 4].
std::ostream& operator<<(std::ostream& out, const Dims& dims);

/// Order of the dimensions in memory. Shapes are always logical (N, C, H, W). With channels_last, C
/// is the fastest dimension: the strides are (H*W*C, 1, W*C, C).
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

/// A size in a formula. +, - and * throw ShapeError naming `op` if the result does not fit into
/// int64_t. Sizes and options come from users and files, and a size that wraps around would give a
/// wrong shape.
class CheckedSize {
 public:
  CheckedSize(std::int64_t value, const char* op = "size") : value_(value), op_(op) {}
  std::int64_t value() const { return value_; }
  friend CheckedSize operator+(CheckedSize a, CheckedSize b);
  friend CheckedSize operator-(CheckedSize a, CheckedSize b);
  friend CheckedSize operator*(CheckedSize a, CheckedSize b);

 private:
  std::int64_t value_;
  const char* op_;
};

/// The product of the sizes; 1 for a 0-dim tensor.
std::int64_t numel_of(const Dims& sizes);
/// Strides of a dense tensor; channels_last requires four dimensions.
Dims strides_of(const Dims& sizes, MemoryFormat format = MemoryFormat::contiguous);
/// Whether elements with these strides fill memory without gaps in the order of `format`.
/// Dimensions of size 1 may have any stride.
bool is_dense(const Dims& sizes, const Dims& strides, MemoryFormat format);
/// Whether several elements share one address, as after expand.
bool repeats_elements(const Dims& sizes, const Dims& strides);
/// Maps -rank … rank-1 to 0 … rank-1. Throws ShapeError naming `op` if dim is out of range.
std::int64_t wrap_dim(std::int64_t dim, std::int64_t rank, const char* op);
/// The shape to which both are broadcast (NumPy's rule: align right, sizes equal or 1). Throws
/// ShapeError if they cannot be broadcast.
Dims broadcast_shapes(const Dims& a, const Dims& b);
/// Strides that read a tensor of (sizes, strides) as if it had the shape `to`; 0 in repeated
/// dimensions.
Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& to);

}  // namespace rondo
