// Fourier transforms against PyTorch in f64 (tests/golden/make_fft.py), and their round trips.

#include "extras/fft/fft.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

bool has_fft() {
  try {
    fft::rfft(ones({2}));
    return true;
  } catch (const Error&) {
    return false;
  }
}

class Fourier : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_fft()) GTEST_SKIP() << "this rondo was built without KISS FFT";
  }
};

TEST_F(Fourier, ResultsAndGradientsAreThoseOfPyTorch) {
  GoldenCases cases = {
      {"irfft.default", [](X x) { return fft::irfft(x[0]); }},
      {"fft2", [](X x) { return fft::fft2(x[0]); }},
      {"ifft2", [](X x) { return fft::ifft2(x[0], {.norm = "ortho"}); }},
      {"rfft2", [](X x) { return fft::rfft2(x[0]); }},
      {"irfft2",
       [](X x) {
         return fft::irfft2(x[0], {.s = {3, 5}});
       }},
      {"fftn", [](X x) { return fft::fftn(x[0]); }},
      {"rfftn",
       [](X x) {
         return fft::rfftn(x[0], {.s = {2, 4}, .dims = {0, 2}});
       }},
      {"irfftn",
       [](X x) {
         return fft::irfftn(x[0], {.dims = {1, 0}});
       }},
      {"fftshift", [](X x) { return fft::fftshift(x[0]); }},
      {"ifftshift", [](X x) { return fft::ifftshift(x[0], {1}); }},
      {"complex_mul", [](X x) { return fft::complex_mul(x[0], x[1]); }},
  };
  for (const std::int64_t n : {1, 2, 3, 7, 8, 15}) {
    cases[concat("fft.", n)] = [](X x) { return fft::fft(x[0]); };
    cases[concat("rfft.", n)] = [](X x) { return fft::rfft(x[0]); };
    cases[concat("irfft.", n)] = [n](X x) { return fft::irfft(x[0], {.n = n}); };
  }
  for (const std::string norm : {"backward", "ortho", "forward"}) {
    cases["fft." + norm] = [norm](X x) { return fft::fft(x[0], {.norm = norm}); };
    cases["ifft." + norm] = [norm](X x) { return fft::ifft(x[0], {.norm = norm}); };
    cases["rfft." + norm] = [norm](X x) { return fft::rfft(x[0], {.norm = norm}); };
    cases["irfft." + norm] = [norm](X x) { return fft::irfft(x[0], {.norm = norm}); };
  }
  for (const std::int64_t n : {3, 7}) {
    cases[concat("fft.length.", n)] = [n](X x) { return fft::fft(x[0], {.n = n, .dim = 0}); };
    cases[concat("rfft.length.", n)] = [n](X x) { return fft::rfft(x[0], {.n = n, .dim = 1}); };
    cases[concat("irfft.length.", n)] = [n](X x) { return fft::irfft(x[0], {.n = n, .dim = -2}); };
  }
  expect_cases("fft.txt", cases);
}

TEST_F(Fourier, FramesAreThoseOfPyTorch) {
  const fft::STFTOptions hann = {
      .hop_length = 3, .win_length = 6, .window = fft::hann_window(6, {.dtype = f64})};
  fft::STFTOptions normalized = hann;
  normalized.normalized = true;
  expect_cases(
      "fft.txt",
      {{"stft", [](X x) { return fft::stft(x[0], 8); }},
       {"stft.window", [=](X x) { return fft::stft(x[0], 8, normalized); }},
       {"stft.plain", [](X x) { return fft::stft(x[0], 5, {.hop_length = 2, .center = false}); }},
       {"istft", [=](X x) { return fft::istft(x[0], 8, hann); }},
       {"istft.length", [=](X x) { return fft::istft(x[0], 8, normalized, 7); }},
       {"istft.plain",
        [](X x) { return fft::istft(x[0], 6, {.hop_length = 3, .center = false}); }}});
  const Golden golden("fft.txt");
  for (const std::int64_t n : {1, 5, 8})
    EXPECT_TRUE(
        all_close(fft::hann_window(n, {.dtype = f64}), golden[concat("hann_window.", n)], 1e-15));
  // A signal survives its frames.
  const Tensor x = randn({2, 31}, {.dtype = f64});
  EXPECT_TRUE(all_close(fft::istft(fft::stft(x, 8, hann), 8, hann, 31).narrow(1, 0, 28),
                        x.narrow(1, 0, 28), 1e-12));
}

TEST_F(Fourier, Frequencies) {
  const Golden golden("fft.txt");
  for (const std::int64_t n : {1, 4, 5}) {
    EXPECT_TRUE(identical(fft::fftfreq(n, 0.5, {.dtype = f64}), golden[concat("fftfreq.", n)]));
    EXPECT_TRUE(identical(fft::rfftfreq(n, 0.5, {.dtype = f64}), golden[concat("rfftfreq.", n)]));
  }
}

TEST_F(Fourier, TheInverseUndoesTheTransform) {
  manual_seed(4);
  for (const DType dtype : {f32, f64}) {
    const double tolerance = dtype == f32 ? 2e-6 : 1e-12;
    for (const std::int64_t n : {1, 2, 3, 5, 12, 101, 128}) {
      const Tensor x = randn({3, n}, {.dtype = dtype}), z = randn({n, 3, 2}, {.dtype = dtype});
      EXPECT_TRUE(all_close(fft::irfft(fft::rfft(x), {.n = n}), x, tolerance)) << n;
      EXPECT_TRUE(all_close(fft::ifft(fft::fft(z, {.dim = 0}), {.dim = 0}), z, tolerance)) << n;
      EXPECT_TRUE(all_close(fft::rfft(x), fft::fft(fft::complex(x)).narrow(1, 0, n / 2 + 1), 0));
    }
  }
  // Strided input, and no lines.
  const Tensor t = randn({4, 6}, {.dtype = f64});
  EXPECT_TRUE(all_close(fft::rfft(t.t()), fft::rfft(t.t().contiguous()), 0));
  EXPECT_EQ(fft::rfft(zeros({0, 4})).shape(), (Dims{0, 3, 2}));
}

// The imaginary parts of the first and of the middle frequency have no part in a real signal.
TEST_F(Fourier, TheRealInverseReadsNoImaginaryPartThatCannotBe) {
  const Tensor spectrum = fft::rfft(randn({8}, {.dtype = f64}));
  const Tensor expected = fft::irfft(spectrum), odd = spectrum.clone();
  odd[0][1].fill_(NAN);
  odd[4][1].fill_(INFINITY);
  EXPECT_TRUE(test::all_close(fft::irfft(odd), expected, 1e-14));
}

TEST_F(Fourier, SecondDerivatives) {
  manual_seed(6);
  const Tensor x = randn({2, 5}, {.dtype = f64}).requires_grad_();
  const Tensor z = randn({2, 3, 2}, {.dtype = f64}).requires_grad_();
  const auto checked = [](const std::function<Tensor(X)>& f, const Tensor& input) {
    const GradcheckResult result =
        gradgradcheck([&](X inputs) { return Tensors{square(f(inputs))}; }, {input});
    EXPECT_TRUE(result.ok) << result.message;
  };
  checked([](X inputs) { return fft::rfft(inputs[0], {.norm = "ortho"}); }, x);
  checked([](X inputs) { return fft::irfft(inputs[0], {.n = 5}); }, z);
  checked([](X inputs) { return fft::fft2(inputs[0]); }, z);
}

TEST_F(Fourier, Errors) {
  const Tensor x = ones({2, 3}), z = ones({2, 3, 2});
  EXPECT_ERROR(fft::fft(x), ShapeError, "fft::fft: expected complex numbers (…, n, 2), got [2, 3]");
  EXPECT_ERROR(fft::rfft(ones({})), ShapeError, "fft::rfft: expected (…, n), got []");
  EXPECT_ERROR(fft::rfft(x.to(f16)), DTypeError, "the input is f16; expected f32 or f64");
  EXPECT_ERROR(fft::rfft(x, {.norm = "none"}), Error, "norm = \"none\"; there are backward");
  EXPECT_ERROR(fft::rfft(x, {.n = 0}), ShapeError, "a transform of length 0");
  EXPECT_ERROR(fft::irfft(z.narrow(1, 0, 1)), ShapeError, "a transform of length 0");
  EXPECT_ERROR(fft::fft(z, {.dim = 2}), ShapeError, "fft::fft");
  EXPECT_ERROR(fft::fftn(z, {.s = {1, 2, 3}}), ShapeError, "3 lengths for 2 dimensions");
  EXPECT_ERROR(fft::fftn(z, {.dims = {0, -2}}), ShapeError, "dimension 0 appears twice");
  EXPECT_ERROR(fft::stft(ones({4}), 8, {.center = false}), ShapeError, "do not fill a frame of 8");
  EXPECT_ERROR(fft::stft(ones({40}), 8, {.win_length = 9}), Error, "win_length at most n_fft");
  EXPECT_ERROR(fft::stft(ones({40}), 8, {.window = ones({7})}), ShapeError,
               "has shape [7], not [8]");
  EXPECT_ERROR(fft::istft(z, 8), ShapeError, "fft::istft: expected (5, frames, 2)");
  EXPECT_ERROR(fft::istft(ones({5, 4, 2}), 8, {.hop_length = 20, .center = false}), Error,
               "the windows leave gaps");
}

}  // namespace
}  // namespace rondo::test
