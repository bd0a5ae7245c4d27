"""Goldens for data/image*.cpp: python3 tests/golden/make_images.py (needs torch, torchvision and pillow).

images_hex.txt      small files, as hexadecimal digits
  other_NAME        files whose pixels are not taken from PIL
images.txt
  file.NAME         the pixels of each file, (H, W, 3), from PIL's convert("RGB")
  picture           an image for the other cases
  resize.HxW, resize.SHORTER, resized_crop, center_crop.HxW, hflip
                    torchvision.transforms.functional on it, as a PIL image
  brightness.F, contrast.F, saturation.F, hue.F
                    the same, with factor F in hundredths
  tensor            ToTensor and Normalize of it, (3, H, W)
"""

import io
import zlib

import numpy
import torch
import torchvision.transforms.functional as F
from PIL import Image

import golden

generator = numpy.random.default_rng(5)


def smooth(height, width, channels):
    """Waves and a little noise: edges, gradients, all colours."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [
        127.5 + 127.5 * numpy.sin(x / (3.0 + c) + c) * numpy.cos(y / (4.0 - c / 2) + 2 * c) for c in range(channels)
    ]
    noisy = numpy.stack(planes, -1) + generator.normal(0, 6, (height, width, channels))
    return noisy.clip(0, 255).astype(numpy.uint8)


def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def png(width, height, depth, colour_type, rows, extra=b"", interlace=0):
    """A PNG file that PIL cannot write, from rows with their filter bytes."""
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([depth, colour_type, 0, 0, interlace])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def adam7(pixels):
    """The rows of the seven passes of an interlaced RGB image."""
    rows = b""
    for y0, x0, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
        part = pixels[y0::dy, x0::dx]
        if part.size:
            rows += b"".join(b"\0" + row.tobytes() for row in part)
    return rows


rgb, grey = Image.fromarray(smooth(13, 17, 3)), Image.fromarray(smooth(13, 17, 1)[..., 0])
alpha = Image.fromarray(smooth(6, 5, 4))
deep = (smooth(4, 5, 3).astype(numpy.uint16) * 251).astype(">u2")
low = smooth(5, 9, 1)[..., 0]
files = {
    "jpeg_444": encoded(rgb, "jpeg", quality=90, subsampling=0),
    "jpeg_422": encoded(rgb, "jpeg", quality=80, subsampling=1),
    "jpeg_420": encoded(rgb, "jpeg", quality=60, subsampling=2),
    "jpeg_progressive": encoded(rgb, "jpeg", quality=75, progressive=True),
    "jpeg_grey": encoded(grey, "jpeg", quality=80),
    "jpeg_cmyk": encoded(Image.fromarray(smooth(13, 17, 4), "CMYK"), "jpeg", quality=90),
    "jpeg_rotated": encoded(rgb, "jpeg", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
    "png_rgb": encoded(rgb, "png"),
    "png_grey": encoded(grey, "png"),
    "png_rgba": encoded(alpha, "png"),
    "png_la": encoded(alpha.convert("LA"), "png"),
    "png_palette": encoded(rgb.quantize(16), "png"),
    "png_palette_transparent": encoded(rgb.quantize(7), "png", transparency=2),
    "png_rgb_transparent": encoded(rgb, "png", transparency=(1, 2, 3)),
    "png_bits": encoded(grey.convert("1"), "png"),
    "png_grey2": png(9, 5, 2, 0, b"".join(bytes([0, *(r[:8].reshape(2, 4) >> 6).dot([64, 16, 4, 1]), r[8] & 192]) for r in low)),
    "png_grey4": png(9, 5, 4, 0, b"".join(bytes([0, *(r[:8].reshape(4, 2) >> 4).dot([16, 1]), r[8] & 240]) for r in low)),
    "png_rgb16": png(5, 4, 16, 2, b"".join(b"\0" + row.tobytes() for row in deep)),
    "png_rgba16": png(4, 4, 16, 6, b"".join(b"\0" + deep[:, :4, [0, 1, 2, 1]][y].tobytes() for y in range(4))),
    "png_la16": png(5, 4, 16, 4, b"".join(b"\0" + deep[:, :, :2][y].tobytes() for y in range(4))),
    "png_interlaced": png(17, 13, 8, 2, adam7(numpy.asarray(rgb)), interlace=1),
    "png_gamma": png(5, 6, 8, 6, b"".join(b"\0" + row.tobytes() for row in numpy.asarray(alpha)), chunk(b"gAMA", (220000).to_bytes(4, "big"))),
}
# Without PIL's pixels: PIL clips 16-bit grey to 255, while rondo keeps the upper eight bits, so the test has the
# values.
others = {
    "other_grey16": png(4, 1, 16, 0, b"\0" + numpy.array([255, 256, 40000, 65535], ">u2").tobytes()),
    "other_palette": png(2, 1, 8, 3, b"\0\0\1", chunk(b"PLTE", b"abc")),  # has one colour and uses two
}


def pixels_of(image):
    return torch.from_numpy(numpy.array(image))


tensors = {f"file.{name}": pixels_of(Image.open(io.BytesIO(data)).convert("RGB")) for name, data in files.items()}
picture = Image.fromarray(smooth(23, 31, 3))
tensors["picture"] = pixels_of(picture)
for height, width in ((7, 9), (23, 12), (11, 31), (40, 50), (1, 1), (23, 31), (60, 5)):
    tensors[f"resize.{height}x{width}"] = pixels_of(F.resize(picture, [height, width]))
for shorter in (8, 16, 23, 37):
    tensors[f"resize.{shorter}"] = pixels_of(F.resize(picture, shorter))
tensors["resize.tall"] = pixels_of(F.resize(picture.rotate(90, expand=True), 10))
tensors["resized_crop"] = pixels_of(F.resized_crop(picture, 3, 5, 17, 20, [12, 14]))
for height, width in ((10, 10), (11, 14), (30, 20), (20, 40), (33, 36)):
    tensors[f"center_crop.{height}x{width}"] = pixels_of(F.center_crop(picture, [height, width]))
tensors["hflip"] = pixels_of(F.hflip(picture))
for factor in (0, 40, 100, 137, 250):
    tensors[f"brightness.{factor}"] = pixels_of(F.adjust_brightness(picture, factor / 100))
    tensors[f"contrast.{factor}"] = pixels_of(F.adjust_contrast(picture, factor / 100))
    tensors[f"saturation.{factor}"] = pixels_of(F.adjust_saturation(picture, factor / 100))
for factor in (-50, -10, 0, 5, 33, 50):
    tensors[f"hue.{factor}"] = pixels_of(F.adjust_hue(picture, factor / 100))
tensors["tensor"] = F.normalize(F.to_tensor(picture), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])

golden.write("images.txt", tensors)
golden.write_texts("images_hex.txt", {name: data.hex() for name, data in {**files, **others}.items()})
