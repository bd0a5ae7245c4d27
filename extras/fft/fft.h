#pragma once
// Fourier transforms with KISS FFT, on the CPU: the functions of torch.fft of these names, and
// torch.stft. rondo has no complex dtype: a complex tensor has a last dimension of 2, the real and
// the imaginary part, as torch.view_as_real shows it. Options count dimensions without it.
//
// f32 and f64, computed in f64 and rounded once. The transforms are linear, so they have gradients
// of any order. The time grows with the largest prime factor of the length. Errors: DeviceError for
// a tensor of a GPU, DTypeError for other dtypes, ShapeError for shapes that do not fit, Error for
// other norms, and if rondo was built without KISS FFT (RONDO_FFT).

#include <optional>
#include <string_view>

#include "tensor/tensor.h"

namespace rondo::fft {

struct FFTOptions {
  /// The length of the transform: the input is cut, or padded with zeros at its end. Not given: the
  /// input's; for irfft 2 (m - 1), where m is the input's.
  std::optional<std::int64_t> n = {};
  std::int64_t dim = -1;
  /// What the result is divided by: "backward" divides the inverse by n, "forward" the others, and
  /// "ortho" both by √n.
  std::string_view norm = "backward";
};
/// y[k] = Σ x[j] exp(-2πi jk / n) of a complex x, and its inverse.
Tensor fft(const Tensor& x, const FFTOptions& options = {});
Tensor ifft(const Tensor& x, const FFTOptions& options = {});
/// fft of a real x: the first n / 2 + 1 elements; the others are their conjugates.
Tensor rfft(const Tensor& x, const FFTOptions& options = {});
/// The inverse: a real result of length n.
Tensor irfft(const Tensor& x, const FFTOptions& options = {});

struct FFTNOptions {
  /// One length for each of `dims`; empty: those of the input.
  Dims s = {};
  /// Empty: all dimensions, or the last ones if s is given.
  Dims dims = {};
  std::string_view norm = "backward";
};
/// The same along several dimensions; rfftn halves the last of them.
Tensor fftn(const Tensor& x, const FFTNOptions& options = {});
Tensor ifftn(const Tensor& x, const FFTNOptions& options = {});
Tensor rfftn(const Tensor& x, const FFTNOptions& options = {});
Tensor irfftn(const Tensor& x, const FFTNOptions& options = {});
/// The same along the last two dimensions.
Tensor fft2(const Tensor& x, FFTNOptions options = {});
Tensor ifft2(const Tensor& x, FFTNOptions options = {});
Tensor rfft2(const Tensor& x, FFTNOptions options = {});
Tensor irfft2(const Tensor& x, FFTNOptions options = {});

/// The frequency of each element of fft (rfft) of n samples at distance d: k / (n d).
Tensor fftfreq(std::int64_t n, double d = 1, TensorOptions options = {});
Tensor rfftfreq(std::int64_t n, double d = 1, TensorOptions options = {});
/// Moves frequency 0 to the middle of `dims` (empty: all) of a real tensor, such as fftfreq or the
/// sizes of a spectrum; and back.
Tensor fftshift(const Tensor& x, const Dims& dims = {});
Tensor ifftshift(const Tensor& x, const Dims& dims = {});

/// (real, imag) as a complex tensor; imag is 0 if it is undefined.
Tensor complex(const Tensor& real, const Tensor& imag = {});
/// The product of two complex tensors, with broadcasting.
Tensor complex_mul(const Tensor& a, const Tensor& b);

/// 0.5 - 0.5 cos(2π k / n), for k = 0 … n - 1 (torch.hann_window).
Tensor hann_window(std::int64_t n, TensorOptions options = {});

struct STFTOptions {
  std::optional<std::int64_t> hop_length = {};  // n_fft / 4
  std::optional<std::int64_t> win_length = {};  // n_fft
  Tensor window = {};                           // (win_length); undefined: ones
  bool center = true;                           // frame k is centred at k · hop_length
  std::string_view pad_mode = "reflect";        // for center
  bool normalized = false;                      // divides by √n_fft
};
/// rfft of windows of x (…, length), hop_length apart: complex (…, n_fft / 2 + 1, frames). x has
/// one or two dimensions.
Tensor stft(const Tensor& x, std::int64_t n_fft, const STFTOptions& options = {});
/// The inverse by least squares: overlapping frames are averaged, weighted by the window. `length`
/// of the result, if not given, is what the frames cover. Throws Error where the windows leave
/// gaps.
Tensor istft(const Tensor& x, std::int64_t n_fft, const STFTOptions& options = {},
             std::optional<std::int64_t> length = {});

}  // namespace rondo::fft
