#pragma once
// Functions that create tensors. Names, defaults and half-open ranges follow PyTorch. Without a
// dtype, tensors are f32, even full and scalar with an integer value; arange, randint and randperm
// of integers are i64, also if only a device is given.

#include <span>
#include <vector>

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo {

Tensor empty(const Dims& sizes, TensorOptions options = {});
Tensor zeros(const Dims& sizes, TensorOptions options = {});
Tensor ones(const Dims& sizes, TensorOptions options = {});
/// Throws Error if the dtype cannot hold the value (Scalar::check_fits; PyTorch stores inf in the
/// 16-bit floats instead).
Tensor full(const Dims& sizes, Scalar value, TensorOptions options = {});
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);
/// A 0-dim tensor.
Tensor scalar(Scalar value, TensorOptions options = {});

/// The ceil((end - start) / step) values start, start + step, … below end (above end for a negative
/// step). Throws Error if the dtype cannot hold them. Without options the dtype is i64, or f32 if
/// one of the numbers is a float.
Tensor arange(Scalar start, Scalar end, Scalar step = 1, TensorOptions options = {});
Tensor arange(Scalar end, TensorOptions options = {});
/// `steps` values from start to end, both included. Throws Error if the dtype cannot hold them.
Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options = {});
/// base^start to base^end, both included; their logarithms have equal distances.
Tensor logspace(double start, double end, std::int64_t steps, double base = 10,
                TensorOptions options = {});
/// n × m (n × n without m), with ones on the diagonal.
Tensor eye(std::int64_t n, std::int64_t m = -1, TensorOptions options = {});

/// Uniform in [0, 1).
Tensor rand(const Dims& sizes, TensorOptions options = {},
            Generator& generator = default_generator());
/// Normal with mean 0 and variance 1.
Tensor randn(const Dims& sizes, TensorOptions options = {},
             Generator& generator = default_generator());
/// Integers in [low, high). Throws Error unless the dtype holds all of them exactly: f32 up to
/// 2^24, f16 up to 2^11, bf16 up to 2^8.
Tensor randint(std::int64_t low, std::int64_t high, const Dims& sizes, TensorOptions options = {},
               Generator& generator = default_generator());
/// The same from 0.
Tensor randint(std::int64_t high, const Dims& sizes, TensorOptions options = {},
               Generator& generator = default_generator());
/// Of low and high without sizes, the second would be taken as a size.
template <IntegerNotBool T>
Tensor randint(std::int64_t low, T high) = delete;
/// A random permutation of 0 … n-1 (Fisher-Yates). Throws Error unless the dtype holds all of them
/// exactly.
Tensor randperm(std::int64_t n, TensorOptions options = {},
                Generator& generator = default_generator());
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);

namespace detail {
/// Copies of the parts as the first dimension of a new tensor; shape [0] for none.
Tensor stacked(const std::vector<Tensor>& parts, DType dtype);
}  // namespace detail

/// A 1-dim copy of `values`, or a copy with the given shape: tensor<float>({1, 2, 3}).
template <class T>
Tensor tensor(std::span<const T> values, const Dims& sizes, Device device = Device::cpu());
template <class T>
Tensor tensor(std::initializer_list<T> values) {
  return tensor<T>(std::span<const T>(values.begin(), values.size()),
                   {static_cast<std::int64_t>(values.size())});
}
/// Of nested lists: tensor<float>({{1, 2}, {3, 4}}) has the shape [2, 2]. Throws ShapeError if the
/// lists have different lengths.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows) {
  std::vector<Tensor> parts;
  for (const std::initializer_list<T>& row : rows) parts.push_back(tensor<T>(row));
  return detail::stacked(parts, dtype_of<T>);
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes) {
  std::vector<Tensor> parts;
  for (const std::initializer_list<std::initializer_list<T>>& rows : planes)
    parts.push_back(tensor<T>(rows));
  return detail::stacked(parts, dtype_of<T>);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const Dims& sizes) {
  return tensor<T>(std::span<const T>(values.begin(), values.size()), sizes);
}
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor<T>(std::span<const T>(values), {static_cast<std::int64_t>(values.size())});
}
template <class T>
Tensor tensor(const std::vector<T>& values, const Dims& sizes) {
  return tensor<T>(std::span<const T>(values), sizes);
}

/// A tensor over existing memory. The caller keeps the memory alive, or passes `release` to free
/// it.
Tensor from_blob(void* data, const Dims& sizes, DType dtype, std::function<void()> release = {});

}  // namespace rondo
