#include "extras/fft/kiss.h"

#ifdef RONDO_HAS_FFT
#include <complex>
#include <kissfft.hh>
#include <vector>
#endif

namespace rondo::fft::kiss {

#ifdef RONDO_HAS_FFT

void transform(const Tensor& x, bool inverse, double scale, const Tensor& y) {
  const std::int64_t n = x.size(1);
  if (x.numel() == 0) return;
  const auto length = static_cast<std::size_t>(n);
  // In double for f32, too: the library computes its roots of unity in the type of the data.
  const kissfft<double> plan(length, inverse);
  std::vector<std::complex<double>> from(length), to(length);
  const auto all = [&]<class T>() {
    const T* in = x.data_ptr<T>();
    T* out = y.data_ptr<T>();
    for (std::int64_t line = 0; line < x.size(0); ++line, in += 2 * n, out += 2 * n) {
      for (std::size_t i = 0; i < length; ++i) from[i] = {in[2 * i], in[2 * i + 1]};
      plan.transform(from.data(), to.data());
      for (std::size_t i = 0; i < length; ++i) {
        out[2 * i] = static_cast<T>(to[i].real() * scale);
        out[2 * i + 1] = static_cast<T>(to[i].imag() * scale);
      }
    }
  };
  x.dtype() == f32 ? all.template operator()<float>() : all.template operator()<double>();
}

#else

void transform(const Tensor&, bool, double, const Tensor&) {
  throw Error("fft: this rondo was built without KISS FFT; install libkissfft-dev and build again");
}

#endif

}  // namespace rondo::fft::kiss
