// Every transform here is one recorded op, a complex transform along one dimension, surrounded by
// cuts, padding and products. Seen as a map of real numbers, its transpose is the transform with
// the other sign: the op is closed under differentiation.

#include "extras/fft/fft.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/fold.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "extras/fft/kiss.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"
#include "tensor/special.h"

namespace rondo::fft {
namespace {

Tensor transformed(const Tensor& x, std::int64_t dim, bool inverse, double scale);

struct TransformBackward final : Node {
  std::int64_t dim;
  bool inverse;
  double scale;
  TransformBackward(std::int64_t dim, bool inverse, double scale)
      : dim(dim), inverse(inverse), scale(scale) {}
  const char* name() const override { return inverse ? "fft::ifft" : "fft::fft"; }
  Tensors backward(const Tensors& dy) override {
    return {transformed(dy[0], dim, !inverse, scale)};
  }
};

/// The transform of a complex x along dim, multiplied by scale.
Tensor transformed(const Tensor& x, std::int64_t dim, bool inverse, double scale) {
  const Tensor y = no_grad([&] {
    const Tensor moved = movedim(x, dim, -2);  // (…, n, 2)
    const Dims lines{moved.numel() / (2 * std::max<std::int64_t>(x.size(dim), 1)), x.size(dim), 2};
    const Tensor from = reshape(contiguous(moved), lines), to = Tensor::empty_like(from);
    kiss::transform(from, inverse, scale, to);
    return contiguous(movedim(reshape(to, moved.shape()), -2, dim));
  });
  return record<TransformBackward>({x}, y, dim, inverse, scale);
}

void require_numbers(const char* op, const Tensor& x, bool is_complex) {
  require<DeviceError>(x.device().is_cpu(), op, ": runs only on the CPU; use x.cpu()");
  require<DTypeError>(x.dtype() == f32 || x.dtype() == f64, op, ": the input is ", x.dtype(),
                      "; expected f32 or f64");
  require<ShapeError>(x.dim() >= (is_complex ? 2 : 1) && (!is_complex || x.size(-1) == 2), op,
                      ": expected ", is_complex ? "complex numbers (…, n, 2)" : "(…, n)", ", got ",
                      x.shape());
}

/// The dimension of x that an option names, which does not count the last one of a complex x.
std::int64_t dim_of(const char* op, const Tensor& x, std::int64_t dim, bool is_complex) {
  return wrap_dim(dim, x.dim() - (is_complex ? 1 : 0), op);
}

/// x with n elements along dim: cut, or padded with zeros at the end.
Tensor resized(const char* op, const Tensor& x, std::int64_t dim, std::int64_t n) {
  require<ShapeError>(n >= 1, op, ": a transform of length ", n, " of dimension ", dim, " of ",
                      x.shape(), "; expected at least 1");
  if (n <= x.size(dim)) return n == x.size(dim) ? x : narrow(x, dim, 0, n);
  Dims sizes = x.shape();
  sizes[dim] = n - x.size(dim);
  return cat({x, zeros(sizes, x.options())}, dim);
}

double scale_of(const char* op, std::string_view norm, bool inverse, std::int64_t n) {
  require(norm == "backward" || norm == "ortho" || norm == "forward", op, ": norm = \"",
          std::string(norm), "\"; there are backward, ortho and forward");
  if (norm == "ortho") return 1 / std::sqrt(static_cast<double>(n));
  return (norm == "backward") == inverse ? 1 / static_cast<double>(n) : 1;
}

Tensor complex_transform(const char* op, const Tensor& x, bool inverse, const FFTOptions& options) {
  const OpRange range(op);
  require_numbers(op, x, true);
  const std::int64_t dim = dim_of(op, x, options.dim, true), n = options.n.value_or(x.size(dim));
  return transformed(resized(op, x, dim, n), dim, inverse, scale_of(op, options.norm, inverse, n));
}

/// The options of each dimension of an n-dimensional transform, the last one first.
std::vector<FFTOptions> each_dim(const char* op, const Tensor& x, const FFTNOptions& options,
                                 bool is_complex) {
  const std::int64_t rank = x.dim() - (is_complex ? 1 : 0);
  Dims dims = options.dims;
  const std::int64_t count = options.s.empty() ? rank : options.s.size();
  require<ShapeError>(count <= rank, op, ": ", count, " lengths for ", rank, " dimensions");
  if (dims.empty())
    for (std::int64_t d = rank - count; d < rank; ++d) dims.push_back(d);
  require<ShapeError>(options.s.empty() || options.s.size() == dims.size(), op, ": ",
                      options.s.size(), " lengths for ", dims.size(), " dimensions");
  require<ShapeError>(!dims.empty(), op, ": no dimensions");
  std::vector<FFTOptions> all;
  for (std::int64_t i = dims.size(); i-- > 0;) {
    const std::int64_t dim = dim_of(op, x, dims[i], is_complex);
    for (const FFTOptions& other : all)
      require<ShapeError>(dim != other.dim, op, ": dimension ", dim, " appears twice in ", dims);
    all.push_back({.dim = dim, .norm = options.norm});
    if (!options.s.empty()) all.back().n = options.s[i];
  }
  return all;
}

FFTNOptions of_last_two(FFTNOptions options) {
  if (options.dims.empty()) options.dims = {-2, -1};
  return options;
}

Tensor shifted(const char* op, const Tensor& x, const Dims& dims, bool back) {
  Dims all = dims, shifts;
  if (dims.empty())
    for (std::int64_t d = 0; d < x.dim(); ++d) all.push_back(d);
  for (const std::int64_t d : all) {
    const std::int64_t n = x.size(wrap_dim(d, x.dim(), op));
    shifts.push_back(back ? (n + 1) / 2 : n / 2);
  }
  return roll(x, shifts, all);
}

Tensor frequencies(std::int64_t first, std::int64_t last, std::int64_t n, double d,
                   TensorOptions options) {
  return div(arange(first, last, 1, options), static_cast<double>(n) * d);
}

}  // namespace

Tensor fft(const Tensor& x, const FFTOptions& options) {
  return complex_transform("fft::fft", x, false, options);
}
Tensor ifft(const Tensor& x, const FFTOptions& options) {
  return complex_transform("fft::ifft", x, true, options);
}

Tensor rfft(const Tensor& x, const FFTOptions& options) {
  constexpr const char* name = "fft::rfft";
  const OpRange op(name);
  require_numbers(name, x, false);
  const std::int64_t dim = dim_of(name, x, options.dim, false), n = options.n.value_or(x.size(dim));
  const Tensor whole = transformed(complex(resized(name, x, dim, n)), dim, false,
                                   scale_of(name, options.norm, false, n));
  return narrow(whole, dim, 0, n / 2 + 1);
}

Tensor irfft(const Tensor& x, const FFTOptions& options) {
  constexpr const char* name = "fft::irfft";
  const OpRange op(name);
  require_numbers(name, x, true);
  const std::int64_t dim = dim_of(name, x, options.dim, true),
                     n = options.n.value_or(2 * (x.size(dim) - 1)), half = n / 2 + 1;
  const Tensor given = resized(name, x, dim, n < 1 ? n : half);
  // The second half of the spectrum adds the conjugates of the first one, so that the imaginary
  // parts of the result cancel: the real parts of the elements that are in both halves count twice.
  Dims line = Dims::filled(x.dim(), 1);
  line[dim] = half;
  const Tensor k = arange(half, {.dtype = i64});
  const Tensor once = logical_or(eq(k, 0), eq(k * 2, n));
  const Tensor weights = reshape(where(once, 1.0, 2.0).to(x.dtype()), line);
  // The imaginary parts of elements that count once have no part in the result, even if not finite.
  const Tensor unused = logical_and(reshape(once, line), eq(arange(2, {.dtype = i64}), 1));
  const Tensor halves = masked_fill(given, unused, 0.0) * weights;
  const Tensor y =
      transformed(resized(name, halves, dim, n), dim, true, scale_of(name, options.norm, true, n));
  return select(y, -1, 0);
}

Tensor fftn(const Tensor& x, const FFTNOptions& options) {
  require_numbers("fft::fftn", x, true);
  Tensor y = x;
  for (const FFTOptions& each : each_dim("fft::fftn", x, options, true)) y = fft(y, each);
  return y;
}
Tensor ifftn(const Tensor& x, const FFTNOptions& options) {
  require_numbers("fft::ifftn", x, true);
  Tensor y = x;
  for (const FFTOptions& each : each_dim("fft::ifftn", x, options, true)) y = ifft(y, each);
  return y;
}
Tensor rfftn(const Tensor& x, const FFTNOptions& options) {
  require_numbers("fft::rfftn", x, false);
  Tensor y = x;
  for (const FFTOptions& each : each_dim("fft::rfftn", x, options, false))
    y = y.is_same(x) ? rfft(y, each) : fft(y, each);
  return y;
}
Tensor irfftn(const Tensor& x, const FFTNOptions& options) {
  require_numbers("fft::irfftn", x, true);
  const std::vector<FFTOptions> all = each_dim("fft::irfftn", x, options, true);
  Tensor y = x;
  for (std::size_t i = all.size(); i-- > 1;) y = ifft(y, all[i]);
  return irfft(y, all[0]);
}

Tensor fft2(const Tensor& x, FFTNOptions options) { return fftn(x, of_last_two(options)); }
Tensor ifft2(const Tensor& x, FFTNOptions options) { return ifftn(x, of_last_two(options)); }
Tensor rfft2(const Tensor& x, FFTNOptions options) { return rfftn(x, of_last_two(options)); }
Tensor irfft2(const Tensor& x, FFTNOptions options) { return irfftn(x, of_last_two(options)); }

Tensor fftfreq(std::int64_t n, double d, TensorOptions options) {
  require(n > 0, "fft::fftfreq: n is ", n, "; expected a positive number");
  return cat({frequencies(0, (n + 1) / 2, n, d, options), frequencies(-(n / 2), 0, n, d, options)});
}
Tensor rfftfreq(std::int64_t n, double d, TensorOptions options) {
  require(n > 0, "fft::rfftfreq: n is ", n, "; expected a positive number");
  return frequencies(0, n / 2 + 1, n, d, options);
}
Tensor fftshift(const Tensor& x, const Dims& dims) {
  return shifted("fft::fftshift", x, dims, false);
}
Tensor ifftshift(const Tensor& x, const Dims& dims) {
  return shifted("fft::ifftshift", x, dims, true);
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  return stack({real, imag.defined() ? imag : zeros_like(real)}, -1);
}

Tensor complex_mul(const Tensor& a, const Tensor& b) {
  const OpRange op("fft::complex_mul");
  require_numbers("fft::complex_mul", a, true);
  require_numbers("fft::complex_mul", b, true);
  const Tensor ar = select(a, -1, 0), ai = select(a, -1, 1), br = select(b, -1, 0),
               bi = select(b, -1, 1);
  return complex(ar * br - ai * bi, ar * bi + ai * br);
}

Tensor hann_window(std::int64_t n, TensorOptions options) {
  require(n > 0, "fft::hann_window: n is ", n, "; expected a positive number");
  if (n == 1) return ones({1}, options);
  const Tensor k = arange(0, n, 1, {.dtype = f64, .device = options.device});
  return to(0.5 - cos(k * (2 * functors::pi / static_cast<double>(n))) * 0.5,
            options.dtype.value_or(f32));
}

namespace {

/// The sizes and the window of stft and istft.
struct Frames {
  std::int64_t hop;
  Tensor window;  // (n_fft)

  Frames(const char* op, const Tensor& x, std::int64_t n_fft, const STFTOptions& options)
      : hop(options.hop_length.value_or(n_fft / 4)) {
    const std::int64_t length = options.win_length.value_or(n_fft);
    require(n_fft > 0 && hop > 0 && length > 0 && length <= n_fft, op, ": n_fft ", n_fft,
            ", hop_length ", hop, " and win_length ", length,
            " must be positive, and win_length at most n_fft");
    const Tensor given = options.window.defined() ? options.window : ones({length}, x.options());
    require<ShapeError>(given.shape() == Dims{length}, op, ": the window has shape ", given.shape(),
                        ", not [", length, "]");
    require<DTypeError>(given.dtype() == x.dtype(), op, ": the window is ", given.dtype(),
                        ", the input is ", x.dtype());
    const std::int64_t before = (n_fft - length) / 2;
    window = pad(given, {before, n_fft - length - before});
  }
};

}  // namespace

Tensor stft(const Tensor& x, std::int64_t n_fft, const STFTOptions& options) {
  constexpr const char* name = "fft::stft";
  const OpRange op(name);
  require_numbers(name, x, false);
  require<ShapeError>(x.dim() <= 2, name, ": expected (length) or (batch, length), got ",
                      x.shape());
  const Frames frames(name, x, n_fft, options);
  Tensor signal = x.dim() == 2 ? x : unsqueeze(x, 0);
  if (options.center) signal = pad(signal, {n_fft / 2, n_fft / 2}, options.pad_mode);
  require<ShapeError>(signal.size(-1) >= n_fft, name, ": ", signal.size(-1),
                      " elements do not fill a frame of ", n_fft);
  const Tensor windows = unfold(signal, -1, n_fft, frames.hop) * frames.window;
  const Tensor y = rfft(windows, {.norm = options.normalized ? "ortho" : "backward"});
  return transpose(x.dim() == 2 ? y : squeeze(y, 0), -3, -2);
}

Tensor istft(const Tensor& x, std::int64_t n_fft, const STFTOptions& options,
             std::optional<std::int64_t> length) {
  constexpr const char* name = "fft::istft";
  const OpRange op(name);
  require_numbers(name, x, true);
  require<ShapeError>(
      (x.dim() == 3 || x.dim() == 4) && x.size(-3) == n_fft / 2 + 1 && x.size(-2) > 0, name,
      ": expected (", n_fft / 2 + 1, ", frames, 2), with or without a batch, got ", x.shape());
  const Frames frames(name, x, n_fft, options);
  const Tensor spectrum = transpose(x.dim() == 4 ? x : unsqueeze(x, 0), -3, -2);
  const Tensor parts =
      irfft(spectrum, {.n = n_fft, .norm = options.normalized ? "ortho" : "backward"});
  const std::int64_t count = parts.size(1), whole = n_fft + frames.hop * (count - 1);
  // Sums of overlapping frames: fold, of images of height 1.
  const auto overlapped = [&](const Tensor& lines) {
    return reshape(
        fold(transpose(lines, 1, 2), {1, whole}, {1, n_fft}, {.stride = {1, frames.hop}}),
        {lines.size(0), whole});
  };
  const std::int64_t start = options.center ? n_fft / 2 : 0;
  const std::int64_t covered = whole - start - (options.center && !length ? n_fft / 2 : 0);
  const std::int64_t n = std::min(length.value_or(covered), covered);
  require(n >= 0, name, ": length is ", n, "; expected 0 or more");
  const Tensor sums = narrow(overlapped(parts * frames.window), 1, start, n);
  const Tensor weights =
      narrow(overlapped(expand(square(frames.window), {1, count, n_fft})), 1, start, n);
  require(n == 0 || min(weights).item<double>() > 1e-11, name,
          ": the windows leave gaps; use a smaller hop_length or another window");
  Tensor y = sums / weights;
  if (length && *length > n) y = pad(y, {0, *length - n});
  return x.dim() == 4 ? y : squeeze(y, 0);
}

}  // namespace rondo::fft
