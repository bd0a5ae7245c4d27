#include "tensor/shape.h"

#include <ostream>

namespace rondo {

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '[';
  for (std::int64_t i = 0; i < dims.size(); ++i) out << (i ? ", " : "") << dims[i];
  return out << ']';
}

namespace {

[[noreturn]] void too_large(const char* op, std::int64_t a, char sign, std::int64_t b) {
  detail::fail<ShapeError>(
      {op, ": ", a, ' ', sign, ' ', b, " is beyond the largest size, 2^63 - 1"});
}

}  // namespace

CheckedSize operator+(CheckedSize a, CheckedSize b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a.value_, b.value_, &sum)) too_large(a.op_, a.value_, '+', b.value_);
  return {sum, a.op_};
}
CheckedSize operator-(CheckedSize a, CheckedSize b) {
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a.value_, b.value_, &difference))
    too_large(a.op_, a.value_, '-', b.value_);
  return {difference, a.op_};
}
CheckedSize operator*(CheckedSize a, CheckedSize b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a.value_, b.value_, &product))
    too_large(a.op_, a.value_, '*', b.value_);
  return {product, a.op_};
}

std::int64_t numel_of(const Dims& sizes) {
  std::int64_t n = 1;
  for (std::int64_t size : sizes) {
    require<ShapeError>(size >= 0, "shape ", sizes, " has a negative size");
    require<ShapeError>(!__builtin_mul_overflow(n, size, &n), "shape ", sizes,
                        " has more than 2^63 elements");
  }
  return n;
}

namespace {

/// Calls f(dim) from the fastest dimension to the slowest.
template <class F>
void from_fastest(std::int64_t rank, MemoryFormat format, F f) {
  if (format == MemoryFormat::channels_last) {
    require<ShapeError>(rank == 4, "channels_last: expected 4 dimensions, got ", rank);
    for (std::int64_t dim : {1, 3, 2, 0}) f(dim);
  } else {
    for (std::int64_t dim = rank - 1; dim >= 0; --dim) f(dim);
  }
}

}  // namespace

Dims strides_of(const Dims& sizes, MemoryFormat format) {
  Dims strides = Dims::filled(sizes.size(), 1);
  std::int64_t step = 1;
  from_fastest(sizes.size(), format, [&](std::int64_t dim) {
    strides[dim] = step;
    require<ShapeError>(!__builtin_mul_overflow(step, std::max<std::int64_t>(sizes[dim], 1), &step),
                        "shape ", sizes, " has more than 2^63 elements");
  });
  return strides;
}

bool is_dense(const Dims& sizes, const Dims& strides, MemoryFormat format) {
  if (format == MemoryFormat::channels_last && sizes.size() != 4) return false;
  bool dense = true;
  std::int64_t step = 1;
  from_fastest(sizes.size(), format, [&](std::int64_t dim) {
    if (sizes[dim] == 0) step = 0;
    if (sizes[dim] != 1 && step != 0) {
      dense = dense && strides[dim] == step;
      step *= sizes[dim];
    }
  });
  return dense || step == 0;
}

bool repeats_elements(const Dims& sizes, const Dims& strides) {
  for (std::int64_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] == 0 && sizes[d] > 1) return true;
  }
  return false;
}

void Dims::fail_position(std::int64_t i) const {
  throw ShapeError(concat("shape: position ", i, " of ", *this, ", which has ", rank_, " entries"));
}

void Dims::require_size(std::int64_t n) const {
  require<ShapeError>(rank_ == n, "shape: ", *this, " has ", rank_, " entries; expected ", n);
}

std::int64_t wrap_dim(std::int64_t dim, std::int64_t rank, const char* op) {
  std::int64_t range = std::max<std::int64_t>(rank, 1);  // a 0-dim tensor accepts 0 and -1
  require<ShapeError>(dim >= -range && dim < range, op, ": dimension ", dim,
                      " is out of range (valid: ", -range, " to ", range - 1, ")");
  return dim < 0 ? dim + range : dim;
}

Dims broadcast_shapes(const Dims& a, const Dims& b) {
  Dims out = a.size() >= b.size() ? a : b;
  const Dims& other = a.size() >= b.size() ? b : a;
  std::int64_t shift = out.size() - other.size();
  for (std::int64_t i = 0; i < other.size(); ++i) {
    std::int64_t& size = out[i + shift];
    require<ShapeError>(size == other[i] || size == 1 || other[i] == 1, "shapes ", a, " and ", b,
                        " do not broadcast: sizes ", size, " and ", other[i], " at dimension ",
                        i + shift);
    if (size == 1) size = other[i];
  }
  return out;
}

Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& to) {
  std::int64_t shift = to.size() - sizes.size();
  require<ShapeError>(shift >= 0, "shape ", sizes, " does not expand to ", to);
  Dims out = Dims::filled(to.size(), 0);
  for (std::int64_t i = 0; i < sizes.size(); ++i) {
    require<ShapeError>(sizes[i] == to[i + shift] || sizes[i] == 1, "shape ", sizes,
                        " does not expand to ", to);
    if (sizes[i] == to[i + shift]) out[i + shift] = strides[i];
  }
  return out;
}

}  // namespace rondo
