"""Goldens for tests/extras/fft/fft_test.cpp: python3 tests/golden/make_fft.py (needs torch). Complex tensors are written
as torch.view_as_real shows them."""

import torch

import golden

torch.manual_seed(19)
out = {}
F = torch.fft
c, r = torch.view_as_complex, torch.view_as_real


def case(name, f, *shapes):
    golden.case(out, name, f, *(golden.drawn(s, grid=8) for s in shapes))


for n in (1, 2, 3, 7, 8, 15):
    case(f"fft.{n}", lambda x: r(F.fft(c(x))), (2, n, 2))
    case(f"rfft.{n}", lambda x: r(F.rfft(x)), (2, n))
    case(f"irfft.{n}", lambda x, n=n: F.irfft(c(x), n), (2, n // 2 + 1, 2))
case("irfft.default", lambda x: F.irfft(c(x)), (5, 2))
for norm in ("backward", "ortho", "forward"):
    case(f"ifft.{norm}", lambda x, m=norm: r(F.ifft(c(x), norm=m)), (6, 2))
    case(f"fft.{norm}", lambda x, m=norm: r(F.fft(c(x), norm=m)), (6, 2))
    case(f"rfft.{norm}", lambda x, m=norm: r(F.rfft(x, norm=m)), (5,))
    case(f"irfft.{norm}", lambda x, m=norm: F.irfft(c(x), norm=m), (4, 2))
for n in (3, 7):
    case(f"fft.length.{n}", lambda x, n=n: r(F.fft(c(x), n, 0)), (5, 2, 2))
    case(f"rfft.length.{n}", lambda x, n=n: r(F.rfft(x, n, 1)), (2, 5, 2))
    case(f"irfft.length.{n}", lambda x, n=n: F.irfft(c(x), n, -2), (5, 2, 2))
case("fft2", lambda x: r(F.fft2(c(x))), (2, 3, 4, 2))
case("ifft2", lambda x: r(F.ifft2(c(x), norm="ortho")), (3, 4, 2))
case("rfft2", lambda x: r(F.rfft2(x)), (2, 3, 5))
case("irfft2", lambda x: F.irfft2(c(x), s=(3, 5)), (3, 3, 2))
case("fftn", lambda x: r(F.fftn(c(x))), (2, 3, 2, 2))
case("rfftn", lambda x: r(F.rfftn(x, s=(2, 4), dim=(0, 2))), (3, 2, 3))
case("irfftn", lambda x: F.irfftn(c(x), dim=(1, 0)), (3, 2, 2))
for n in (1, 4, 5):
    out[f"fftfreq.{n}"] = F.fftfreq(n, 0.5, dtype=torch.float64)
    out[f"rfftfreq.{n}"] = F.rfftfreq(n, 0.5, dtype=torch.float64)
case("fftshift", F.fftshift, (3, 4))
case("ifftshift", lambda x: F.ifftshift(x, dim=1), (3, 5))
case("complex_mul", lambda a, b: r(c(a) * c(b)), (2, 3, 2), (3, 2))
for n in (1, 5, 8):
    out[f"hann_window.{n}"] = torch.hann_window(n, dtype=torch.float64)
window = torch.hann_window(6, dtype=torch.float64)
case("stft", lambda x: r(torch.stft(x, 8, return_complex=True, window=torch.ones(8, dtype=torch.float64))), (2, 20))
case("stft.window", lambda x: r(torch.stft(x, 8, 3, 6, window, normalized=True, return_complex=True)), (20,))
case("stft.plain", lambda x: r(torch.stft(x, 5, 2, center=False, window=torch.ones(5, dtype=torch.float64), return_complex=True)), (11,))
case("istft", lambda x: torch.istft(c(x), 8, 3, 6, window), (2, 5, 4, 2))
case("istft.length", lambda x: torch.istft(c(x), 8, 3, 6, window, normalized=True, length=7), (5, 4, 2))
case("istft.plain", lambda x: torch.istft(c(x), 6, 3, center=False, window=torch.ones(6, dtype=torch.float64)), (4, 3, 2))
golden.write("fft.txt", out)
