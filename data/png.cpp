// PNG through libpng, which unpacks to one byte per pixel (grey or palette indices) or three (RGB),
// without alpha. This file converts grey and palette indices to RGB.

#ifdef RONDO_HAS_IMAGES

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/codecs.h"

namespace rondo::data {
namespace {

/// The largest number of bytes that deflate makes of one byte (zlib.net/zlib_tech.html: 1032).
constexpr std::int64_t most_gain = 1032;

/// libpng's input position, and its error message.
struct PngInput {
  std::span<const std::byte> bytes;
  std::size_t at = 0;
  std::jmp_buf jump{};
  std::array<char, 200> message{};
};

[[noreturn]] void fail(png_structp png, png_const_charp text) {
  auto* source = static_cast<PngInput*>(png_get_error_ptr(png));
  std::snprintf(source->message.data(), source->message.size(), "%s", text);
  std::longjmp(source->jump, 1);
}

void ignore(png_structp, png_const_charp) {}

void feed(png_structp png, png_bytep to, std::size_t count) {
  auto* source = static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > source->bytes.size() - source->at) png_error(png, "it ends early");
  std::memcpy(to, source->bytes.data() + source->at, count);
  source->at += count;
}

/// A decoder over bytes in memory. Its methods are the functions of Note [Errors of C libraries].
class PngDecoder {
 public:
  explicit PngDecoder(std::span<const std::byte> bytes) { source_.bytes = bytes; }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  /// Reads everything before the pixels.
  bool read_header() {
    if (setjmp(source_.jump)) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, fail, ignore);
    if (png_ == nullptr) return false;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_read_fn(png_, &source_, feed);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_image_size is stricter
    png_set_chunk_malloc_max(png_, 16 << 20);
    // Skip texts, profiles and the like, so that they are not unpacked.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    return true;
  }
  /// Sets the output to bytes with 1 or 3 channels.
  bool start() {
    if (setjmp(source_.jump)) return false;
    if (png_get_bit_depth(png_, info_) == 16) png_set_strip_16(png_);
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY) {
      png_set_expand_gray_1_2_4_to_8(png_);
    } else {
      png_set_packing(png_);
    }
    png_set_strip_alpha(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool read_row(std::uint8_t* row) {
    if (setjmp(source_.jump)) return false;
    png_read_row(png_, row, nullptr);
    return true;
  }
  /// Reads everything after the pixels.
  bool finish() {
    if (setjmp(source_.jump)) return false;
    png_read_end(png_, nullptr);
    return true;
  }

  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }
  /// Bits per pixel in the file; valid only before `start`.
  int bits() const { return png_get_channels(png_, info_) * png_get_bit_depth(png_, info_); }
  int channels() const { return png_get_channels(png_, info_); }
  /// How often the rows are read: once, or seven times for an interlaced picture.
  int passes() const { return passes_; }
  bool has_palette() const { return png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE; }
  /// Empty without a palette.
  std::span<const png_color> palette() const {
    png_colorp colours = nullptr;
    int count = 0;
    png_get_PLTE(png_, info_, &colours, &count);
    return {colours, static_cast<std::size_t>(count)};
  }
  const char* message() const { return source_.message.data(); }

 private:
  PngInput source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

/// Converts one byte per pixel to RGB. The byte is an index into `palette`, or a grey value.
void colour(const std::vector<std::uint8_t>& from, bool has_palette,
            std::span<const png_color> palette, std::uint8_t* to, const std::string& name) {
  for (const std::uint8_t value : from) {
    png_color colour{value, value, value};
    if (has_palette) {
      require<IoError>(value < palette.size(), name, ": colour ", int{value}, " of a palette of ",
                       palette.size());
      colour = palette[value];
    }
    *to++ = colour.red;
    *to++ = colour.green;
    *to++ = colour.blue;
  }
}

}  // namespace

Tensor decode_png(std::span<const std::byte> bytes, const std::string& name) {
  PngDecoder decoder(bytes);
  const auto check = [&](bool fine) {
    require<IoError>(fine, name, ": not a whole PNG file (", decoder.message(), ")");
  };
  check(decoder.read_header());
  const std::int64_t height = decoder.height(), width = decoder.width();
  check_image_size(height, width, name);
  require<IoError>(height * width * decoder.bits() / 8 <= most_gain * std::ssize(bytes), name,
                   ": cut short: ", bytes.size(), " bytes cannot hold ", height, " x ", width,
                   " pixels");
  check(decoder.start());
  const int channels = decoder.channels();
  // An interlaced picture is read in passes; each pass fills in pixels of all rows.
  std::vector<std::uint8_t> narrow(channels == 3 ? 0 : static_cast<std::size_t>(height * width));
  Tensor image = Tensor::empty({height, width, 3}, {.dtype = u8});
  auto* pixels = image.data_ptr<std::uint8_t>();
  std::uint8_t* rows = channels == 3 ? pixels : narrow.data();
  for (int pass = 0; pass < decoder.passes(); ++pass) {
    for (std::int64_t y = 0; y < height; ++y) check(decoder.read_row(rows + y * width * channels));
  }
  check(decoder.finish());
  if (channels == 1) colour(narrow, decoder.has_palette(), decoder.palette(), pixels, name);
  return image;
}

}  // namespace rondo::data

#endif
