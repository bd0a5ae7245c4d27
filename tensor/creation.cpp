// Creates tensors: see creation.h. Tensors are either built dense on the CPU, or filled by the
// device's own backend. Sequences (arange, linspace, randperm) are computed here in double or
// int64_t and converted once.

#include "tensor/creation.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// A contiguous tensor, converted to the options' dtype and device.
Tensor converted(const Tensor& exact, TensorOptions options) {
  if (options.dtype.value_or(f32) == exact.dtype() && options.device == exact.device())
    return exact;
  Tensor out = Tensor::empty(exact.shape(), options);
  if (out.numel() > 0) backend(out).copy(exact, out);
  return out;
}

/// As in PyTorch: only two numbers fit into bools.
void require_numbers(DType dtype) {
  require<DTypeError>(dtype != boolean, "expected a dtype of numbers, got bool");
}

/// The tensor of f(0) … f(count - 1), computed in C and converted once. f must be monotonic, so
/// that checking its first and last value is enough.
template <class C, class F>
Tensor sequence(std::int64_t count, TensorOptions options, F f) {
  require_numbers(options.dtype.value_or(f32));
  for (const std::int64_t end : {std::int64_t{0}, count - 1})
    if (count > 0) Scalar(f(end)).check_fits(options.dtype.value_or(f32));
  Tensor exact = Tensor::empty({count}, {.dtype = dtype_of<C>});
  C* values = exact.data_ptr<C>();
  for (std::int64_t i = 0; i < count; ++i) values[i] = f(i);
  return converted(exact, options);
}

void require_floating(const char* op, DType dtype) {
  require<DTypeError>(is_floating(dtype), op, ": expected a floating-point dtype, got ", dtype);
}

}  // namespace

Tensor empty(const Dims& sizes, TensorOptions options) {
  const OpName op("empty");
  return Tensor::empty(sizes, options);
}

Tensor full(const Dims& sizes, Scalar value, TensorOptions options) {
  const OpName op("full");
  value.check_fits(options.dtype.value_or(f32));
  Tensor y = Tensor::empty(sizes, options);
  if (y.numel() > 0) backend(y).fill(y, value);
  return y;
}

Tensor zeros(const Dims& sizes, TensorOptions options) {
  const OpName op("zeros");
  return full(sizes, 0, options);
}
Tensor ones(const Dims& sizes, TensorOptions options) {
  const OpName op("ones");
  return full(sizes, 1, options);
}
Tensor scalar(Scalar value, TensorOptions options) { return full({}, value, options); }

Tensor empty_like(const Tensor& x) {
  const OpName op("empty_like");
  return Tensor::empty_like(x);
}

Tensor full_like(const Tensor& x, Scalar value) {
  const OpName op("full_like");
  value.check_fits(x.dtype());
  Tensor y = Tensor::empty_like(x);
  if (y.numel() > 0) backend(y).fill(y, value);
  return y;
}

Tensor zeros_like(const Tensor& x) {
  const OpName op("zeros_like");
  return full_like(x, 0);
}
Tensor ones_like(const Tensor& x) {
  const OpName op("ones_like");
  return full_like(x, 1);
}

namespace {

/// first + step i, for i = 0 … count - 1, computed in i64 or f64. On a GPU by its own kernels, so
/// that a captured graph may contain it.
template <class C>
Tensor progression(std::int64_t count, TensorOptions options, C first, C step) {
  const auto value = [=](std::int64_t i) { return first + step * static_cast<C>(i); };
  // Kernels take their parameters as doubles.
  const auto is_exact = [](C number) { return std::abs(static_cast<double>(number)) < 0x1p53; };
  if (options.device.is_cpu() || count == 0 || !is_exact(first) || !is_exact(step))
    return sequence<C>(count, options, value);
  require_numbers(options.dtype.value_or(f32));
  for (const std::int64_t end : {std::int64_t{0}, count - 1})
    Scalar(value(end)).check_fits(options.dtype.value_or(f32));
  Backend& device = backend(options.device);
  const auto made = [&](DType dtype) {
    return Tensor::empty({count}, {.dtype = dtype, .device = options.device});
  };
  const Tensor ones = made(i64), places = made(i64), values = made(dtype_of<C>);
  device.fill(ones, 1);
  device.scan(ScanOp::sum, ones, 0, false, places);
  device.unary(UnaryOp::add_scalar, places, places, {.alpha = -1});
  device.copy(places, values);
  device.unary(UnaryOp::mul_scalar, values, values, {.alpha = static_cast<double>(step)});
  device.unary(UnaryOp::add_scalar, values, values, {.alpha = static_cast<double>(first)});
  return converted(values, options);
}

}  // namespace

Tensor arange(Scalar start, Scalar end, Scalar step, TensorOptions options) {
  const OpName op("arange");
  const double first = start.to<double>(), last = end.to<double>(), by = step.to<double>();
  require<Error>(by != 0 && std::isfinite(first) && std::isfinite(last) && !std::isnan(by),
                 "arange: expected a nonzero step and finite bounds, got (", first, ", ", last,
                 ", ", by, ")");
  require<Error>((by > 0) == (last >= first) || first == last, "arange: a step of ", by,
                 " does not lead from ", first, " to ", last);
  const bool integers = start.dtype() != f64 && end.dtype() != f64 && step.dtype() != f64;
  if (!options.dtype) options.dtype = integers ? i64 : f32;
  if (integers) {
    const std::int64_t a = start.to<std::int64_t>(), b = end.to<std::int64_t>();
    const std::int64_t s = step.to<std::int64_t>();
    std::int64_t distance = 0;
    require<ShapeError>(!__builtin_sub_overflow(b, a, &distance) &&
                            distance != std::numeric_limits<std::int64_t>::min(),
                        "arange: the distance from ", a, " to ", b, " is 2^63 or more");
    const std::int64_t count = distance / s + (distance % s != 0);
    return progression<std::int64_t>(count, options, a, s);
  }
  const double count = std::ceil((last - first) / by);
  require<ShapeError>(count < 0x1p60, "arange: ", count, " values are too many");
  if (is_integral(*options.dtype)) {  // as PyTorch: counted before they are rounded towards 0
    require<Error>(step.to<std::int64_t>() != 0, "arange: a step of ", by, " becomes 0 in ",
                   *options.dtype);
    return progression<std::int64_t>(static_cast<std::int64_t>(count), options,
                                     start.to<std::int64_t>(), step.to<std::int64_t>());
  }
  return progression<double>(static_cast<std::int64_t>(count), options, first, by);
}

Tensor arange(Scalar end, TensorOptions options) { return arange(0, end, 1, options); }

namespace {

/// f(start) … f(end), of `steps` values at equal distances.
template <class F>
Tensor spaced(const char* op, double start, double end, std::int64_t steps, TensorOptions options,
              F f) {
  const OpName name(op);
  require<Error>(steps >= 0, op, ": expected a number of steps >= 0, got ", steps);
  if (options.dtype && is_integral(*options.dtype))
    start = std::trunc(start), end = std::trunc(end);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  // Counted from the nearer end, so that both ends are exact and the sequence is symmetric.
  return sequence<double>(steps, options, [=](std::int64_t i) {
    return f(i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i)
                                         : end - step * static_cast<double>(steps - 1 - i));
  });
}

}  // namespace

Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options) {
  return spaced("linspace", start, end, steps, options, [](double x) { return x; });
}

Tensor logspace(double start, double end, std::int64_t steps, double base, TensorOptions options) {
  return spaced("logspace", start, end, steps, options,
                [base](double x) { return std::pow(base, x); });
}

Tensor eye(std::int64_t n, std::int64_t m, TensorOptions options) {
  const OpName op("eye");
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
  const OpName op("rand");
  require_floating("rand", options.dtype.value_or(f32));
  Tensor y = Tensor::empty(sizes, options);
  backend(y).uniform(y, generator.next(), 0, 1);
  return y;
}

Tensor randn(const Dims& sizes, TensorOptions options, Generator& generator) {
  const OpName op("randn");
  require_floating("randn", options.dtype.value_or(f32));
  Tensor y = Tensor::empty(sizes, options);
  backend(y).normal(y, generator.next(), 0, 1);
  return y;
}

namespace {

/// The range in which `dtype` holds every integer exactly: for a float, up to 2^(bits of its
/// fraction).
std::pair<std::int64_t, std::int64_t> integers_of(DType dtype) {
  return visit_dtype(dtype, []<class T>() -> std::pair<std::int64_t, std::int64_t> {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>) {
      return {Limits::lowest(), Limits::max()};
    } else {
      const int digits = std::is_same_v<T, Half>       ? 11
                         : std::is_same_v<T, BFloat16> ? 8
                                                       : Limits::digits;
      return {-(std::int64_t{1} << digits), std::int64_t{1} << digits};
    }
  });
}

/// Without this check, integers drawn from [low, high) might be rounded or wrap around.
void require_holds(const char* op, DType dtype, std::int64_t low, std::int64_t high) {
  const auto [least, most] = integers_of(dtype);
  require<Error>(low >= least && high - 1 <= most, op, ": not all integers in [", low, ", ", high,
                 ") fit into ", dtype);
}

}  // namespace

Tensor randint(std::int64_t low, std::int64_t high, const Dims& sizes, TensorOptions options,
               Generator& generator) {
  const OpName op("randint");
  require<Error>(low < high, "randint: expected low < high, got [", low, ", ", high, ")");
  if (!options.dtype) options.dtype = i64;
  require_holds("randint", *options.dtype, low, high);
  Tensor y = Tensor::empty(sizes, options);
  backend(y).randint(y, generator.next(), low, high);
  return y;
}

Tensor randint(std::int64_t high, const Dims& sizes, TensorOptions options, Generator& generator) {
  return randint(0, high, sizes, options, generator);
}

Tensor detail::stacked(const std::vector<Tensor>& parts, DType dtype) {
  if (parts.empty()) return empty({0}, {.dtype = dtype});
  Dims sizes = parts[0].shape();
  sizes.insert(0, static_cast<std::int64_t>(parts.size()));
  const Tensor y = empty(sizes, {.dtype = dtype});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    require<ShapeError>(parts[i].shape() == parts[0].shape(), "tensor: list ", i, " has the shape ",
                        parts[i].shape(), ", the first ", parts[0].shape());
    backend(y).copy(parts[i], y.as_view(parts[i].shape(), parts[i].strides(),
                                        static_cast<std::int64_t>(i) * y.stride(0)));
  }
  return y;
}

Tensor randperm(std::int64_t n, TensorOptions options, Generator& generator) {
  const OpName op("randperm");
  require<Error>(n >= 0, "randperm: expected a length >= 0, got ", n);
  if (!options.dtype) options.dtype = i64;
  require_holds("randperm", *options.dtype, 0, n);
  const Tensor exact = arange(n);
  std::int64_t* order = exact.data_ptr<std::int64_t>();
  const Philox random = generator.next();
  for (std::int64_t i = n - 1; i > 0; --i) {
    const std::uint64_t word = random.word64(static_cast<std::uint64_t>(i));
    std::swap(order[i], order[uniform_below(word, static_cast<std::uint64_t>(i) + 1)]);
  }
  return converted(exact, options);
}

Tensor rand_like(const Tensor& x) {
  const OpName op("rand_like");
  require_floating("rand_like", x.dtype());
  Tensor y = Tensor::empty_like(x);
  backend(y).uniform(y, default_generator().next(), 0, 1);
  return y;
}

Tensor randn_like(const Tensor& x) {
  const OpName op("randn_like");
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
  const std::int64_t bytes = bytes_of(sizes, dtype);
  require<Error>(data != nullptr || bytes == 0, "from_blob: data is null for shape ", sizes);
  auto storage = std::make_shared<Storage>(data, static_cast<std::size_t>(bytes), Device::cpu(),
                                           std::move(release));
  return Tensor::over(std::move(storage), 0, sizes, strides_of(sizes), dtype);
}

}  // namespace rondo
