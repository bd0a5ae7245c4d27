// Making tensors: see creation.h. Everything is made dense on the CPU or filled by the device's own
// backend; sequences (arange, linspace, randperm) are computed in double or int64_t here and
// converted once.

#include "tensor/creation.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "tensor/backend.h"

namespace rondo {
namespace {

/// A contiguous CPU tensor with these values, taken to the options' dtype and device.
template <class C>
Tensor from_values(const std::vector<C>& values, const Dims& sizes, TensorOptions options) {
  Tensor exact = tensor<C>(values, sizes);
  if (options.dtype == exact.dtype() && options.device.is_cpu()) return exact;
  Tensor out = Tensor::empty(sizes, options);
  if (out.numel() > 0) backend(out).copy(exact, out);
  return out;
}

void require_floating(const char* op, DType dtype) {
  require<DTypeError>(is_floating(dtype), op, ": the dtype must be a floating one, not ", dtype);
}

}  // namespace

Tensor empty(const Dims& sizes, TensorOptions options) { return Tensor::empty(sizes, options); }

Tensor full(const Dims& sizes, Scalar value, TensorOptions options) {
  Tensor y = Tensor::empty(sizes, options);
  if (y.numel() > 0) backend(y).fill(y, value);
  return y;
}

Tensor zeros(const Dims& sizes, TensorOptions options) { return full(sizes, 0, options); }
Tensor ones(const Dims& sizes, TensorOptions options) { return full(sizes, 1, options); }
Tensor scalar(Scalar value, TensorOptions options) { return full({}, value, options); }

Tensor empty_like(const Tensor& x) { return Tensor::empty_like(x); }

Tensor full_like(const Tensor& x, Scalar value) {
  Tensor y = Tensor::empty_like(x);
  if (y.numel() > 0) backend(y).fill(y, value);
  return y;
}

Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }

Tensor arange(Scalar start, Scalar end, Scalar step, TensorOptions options) {
  const double first = start.to<double>(), last = end.to<double>(), by = step.to<double>();
  require<Error>(by != 0 && std::isfinite(first) && std::isfinite(last) && !std::isnan(by),
                 "arange: wants a step other than 0 and finite bounds, not (", first, ", ", last,
                 ", ", by, ")");
  require<Error>((by > 0) == (last >= first) || first == last, "arange: a step of ", by,
                 " does not lead from ", first, " to ", last);
  const bool integers = start.dtype() != f64 && end.dtype() != f64 && step.dtype() != f64;
  if (integers || options.dtype == i64) {
    const std::int64_t a = start.to<std::int64_t>(), b = end.to<std::int64_t>();
    const std::int64_t s = step.to<std::int64_t>();
    require<Error>(s != 0, "arange: a step of ", by, " is 0 in ", options.dtype);
    const std::int64_t count = (b - a + s - (s > 0 ? 1 : -1)) / s;
    std::vector<std::int64_t> values(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = a + s * static_cast<std::int64_t>(i);
    return from_values(values, {static_cast<std::int64_t>(values.size())}, options);
  }
  std::vector<double> values(static_cast<std::size_t>(std::ceil((last - first) / by)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + by * static_cast<double>(i);
  return from_values(values, {static_cast<std::int64_t>(values.size())}, options);
}

Tensor arange(Scalar start, Scalar end, Scalar step) {
  const bool real = start.dtype() == f64 || end.dtype() == f64 || step.dtype() == f64;
  return arange(start, end, step, {.dtype = real ? f32 : i64});
}

Tensor arange(Scalar end, TensorOptions options) { return arange(0, end, 1, options); }
Tensor arange(Scalar end) { return arange(0, end, 1); }

Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options) {
  require<Error>(steps >= 0, "linspace: the number of steps must not be negative, not ", steps);
  std::vector<double> values(static_cast<std::size_t>(steps));
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  // Counted from the nearer end, so that both ends are exact and the middle symmetric.
  for (std::int64_t i = 0; i < steps; ++i) {
    values[static_cast<std::size_t>(i)] = i < steps / 2 || steps == 1
                                              ? start + step * static_cast<double>(i)
                                              : end - step * static_cast<double>(steps - 1 - i);
  }
  return from_values(values, {steps}, options);
}

Tensor eye(std::int64_t n, std::int64_t m, TensorOptions options) {
  if (m < 0) m = n;
  Tensor y = zeros({n, m}, options);
  const std::int64_t length = std::min(n, m);
  if (length > 0) {
    const Tensor diagonal = y.as_view({length}, {y.stride(0) + y.stride(1)}, y.storage_offset());
    backend(y).fill(diagonal, 1);
  }
  return y;
}

Tensor rand(const Dims& sizes, TensorOptions options, Generator& generator) {
  require_floating("rand", options.dtype);
  Tensor y = Tensor::empty(sizes, options);
  backend(y).uniform(y, generator.next(), 0, 1);
  return y;
}

Tensor randn(const Dims& sizes, TensorOptions options, Generator& generator) {
  require_floating("randn", options.dtype);
  Tensor y = Tensor::empty(sizes, options);
  backend(y).normal(y, generator.next(), 0, 1);
  return y;
}

Tensor randint(std::int64_t low, std::int64_t high, const Dims& sizes, TensorOptions options,
               Generator& generator) {
  require<Error>(low < high, "randint: there is no integer in [", low, ", ", high, ")");
  Tensor y = Tensor::empty(sizes, options);
  backend(y).randint(y, generator.next(), low, high);
  return y;
}

Tensor randperm(std::int64_t n, TensorOptions options, Generator& generator) {
  require<Error>(n >= 0, "randperm: the length must not be negative, not ", n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const Philox random = generator.next();
  for (std::int64_t i = n - 1; i > 0; --i) {
    const std::uint64_t word = random.word64(static_cast<std::uint64_t>(i));
    std::swap(order[static_cast<std::size_t>(i)],
              order[uniform_below(word, static_cast<std::uint64_t>(i) + 1)]);
  }
  return from_values(order, {n}, options);
}

Tensor rand_like(const Tensor& x) {
  require_floating("rand_like", x.dtype());
  Tensor y = Tensor::empty_like(x);
  backend(y).uniform(y, default_generator().next(), 0, 1);
  return y;
}

Tensor randn_like(const Tensor& x) {
  require_floating("randn_like", x.dtype());
  Tensor y = Tensor::empty_like(x);
  backend(y).normal(y, default_generator().next(), 0, 1);
  return y;
}

template <class T>
Tensor tensor(std::span<const T> values, const Dims& sizes, Device device) {
  require<ShapeError>(numel_of(sizes) == static_cast<std::int64_t>(values.size()),
                      "tensor: ", values.size(), " values do not fill the shape ", sizes);
  Tensor y = Tensor::empty(sizes, {.dtype = dtype_of<T>});
  if (!values.empty()) std::memcpy(y.data_ptr(), values.data(), values.size_bytes());
  if (device.is_cpu()) return y;
  Tensor there = Tensor::empty(sizes, {.dtype = dtype_of<T>, .device = device});
  if (!values.empty()) backend(device).copy(y, there);
  return there;
}

template Tensor tensor(std::span<const double>, const Dims&, Device);
template Tensor tensor(std::span<const float>, const Dims&, Device);
template Tensor tensor(std::span<const BFloat16>, const Dims&, Device);
template Tensor tensor(std::span<const Half>, const Dims&, Device);
template Tensor tensor(std::span<const std::int64_t>, const Dims&, Device);
template Tensor tensor(std::span<const std::int32_t>, const Dims&, Device);
template Tensor tensor(std::span<const std::uint8_t>, const Dims&, Device);
template Tensor tensor(std::span<const std::int8_t>, const Dims&, Device);
template Tensor tensor(std::span<const bool>, const Dims&, Device);

Tensor from_blob(void* data, const Dims& sizes, DType dtype, std::function<void()> release) {
  const std::int64_t bytes = numel_of(sizes) * size_of(dtype);
  require<Error>(data != nullptr || bytes == 0, "from_blob: no memory given for the shape ", sizes);
  auto storage = std::make_shared<Storage>(data, static_cast<std::size_t>(bytes), Device::cpu(),
                                           std::move(release));
  return Tensor::over(std::move(storage), 0, sizes, strides_of(sizes), dtype);
}

}  // namespace rondo
