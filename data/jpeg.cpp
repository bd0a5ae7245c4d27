// JPEG through libjpeg(-turbo), with its defaults, which PIL uses, too: the slow exact integer DCT
// and smooth upsampling of colour.
//
// libjpeg reports errors, which end decoding, and warnings. Some warnings mean that pixels were
// made up (a Huffman code that does not exist, data that ends early); here they are errors, too.
// Other warnings, such as bytes between markers, occur in good data sets and are ignored.

#ifdef RONDO_HAS_IMAGES

// clang-format off
#include <cstdio>     // jpeglib.h needs it, and does not include it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <csetjmp>
#include <vector>

#include "data/codecs.h"

namespace rondo::data {
namespace {

/// A progressive file may contain very many scans of a few bytes each, which take time to decode.
/// Encoders write about ten.
constexpr int max_scans = 200;

/// Receives libjpeg's errors.
struct ErrorReport {
  jpeg_error_mgr manager;  // must be first: libjpeg's pointer to it is cast to ErrorReport
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void fail(j_common_ptr jpeg) {
  auto* report = reinterpret_cast<ErrorReport*>(jpeg->err);
  jpeg->err->format_message(jpeg, report->message.data());
  std::longjmp(report->jump, 1);
}

void note(j_common_ptr jpeg, int level) {
  if (level >= 0) return;  // a trace, not a warning
  switch (jpeg->err->msg_code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
      fail(jpeg);
    default:
      return;
  }
}

void nothing(j_common_ptr) {}

/// libjpeg calls this regularly.
void check_scans(j_common_ptr jpeg) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (!jpeg->is_decompressor || decoder->input_scan_number <= max_scans) return;
  auto* report = reinterpret_cast<ErrorReport*>(jpeg->err);
  std::snprintf(report->message.data(), report->message.size(), "More than %d scans", max_scans);
  std::longjmp(report->jump, 1);
}

/// A decoder over bytes in memory. Its methods are the functions of Note [Errors of C libraries].
class JpegDecoder {
 public:
  explicit JpegDecoder(std::span<const std::byte> bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&report_.manager);
    report_.manager.error_exit = fail;
    report_.manager.emit_message = note;
    report_.manager.output_message = nothing;
    report_.message[0] = '\0';
    progress_.progress_monitor = check_scans;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&jpeg_); }  // no effect if never created
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Reads everything before the pixels.
  bool read_header() {
    if (setjmp(report_.jump)) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }
  /// Limits the memory that libjpeg allocates from now on.
  void limit_memory(std::int64_t bytes) {
    jpeg_.mem->max_memory_to_use = static_cast<long>(bytes);  // NOLINT(google-runtime-int)
  }
  bool start() {
    if (setjmp(report_.jump)) return false;
    jpeg_start_decompress(&jpeg_);
    return true;
  }
  bool read_row(std::uint8_t* to) {
    if (setjmp(report_.jump)) return false;
    JSAMPROW row = to;
    jpeg_read_scanlines(&jpeg_, &row, 1);
    return true;
  }
  /// Reads everything after the pixels.
  bool finish() {
    if (setjmp(report_.jump)) return false;
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  std::int64_t height() const { return jpeg_.image_height; }
  std::int64_t width() const { return jpeg_.image_width; }
  /// Channels of an output row: 1 grey, 3 RGB, 4 CMYK.
  int channels() const { return jpeg_.output_components; }
  const char* message() const { return report_.message.data(); }

 private:
  std::span<const std::byte> bytes_;
  jpeg_decompress_struct jpeg_{};
  jpeg_progress_mgr progress_{};
  ErrorReport report_;
};

/// round(a b / 255).
int product(int a, int b) {
  const int sum = a * b + 128;
  return ((sum >> 8) + sum) >> 8;
}

/// Converts a row of grey or CMYK to RGB. CMYK is stored inverted, as Adobe does: 255 means no ink.
/// As PIL: out = k - round((255 - c) k / 255), where k is the stored black.
void widen(const std::vector<std::uint8_t>& from, int channels, std::uint8_t* to) {
  const std::size_t step = static_cast<std::size_t>(channels);
  for (std::size_t x = 0; x < from.size(); x += step, to += 3) {
    for (std::size_t c = 0; c < 3; ++c) {
      if (channels == 1) {
        to[c] = from[x];
        continue;
      }
      const int light = from[x + 3];
      to[c] = static_cast<std::uint8_t>(light - product(255 - from[x + c], light));
    }
  }
}

}  // namespace

Tensor decode_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  JpegDecoder decoder(bytes);
  const auto check = [&](bool fine) {
    require<IoError>(fine, name, ": not a whole JPEG file (", decoder.message(), ")");
  };
  check(decoder.read_header());
  const std::int64_t height = decoder.height(), width = decoder.width();
  check_image_size(height, width, name);
  decoder.limit_memory((std::int64_t{64} << 20) + 8 * height * width);
  check(decoder.start());
  const int channels = decoder.channels();
  require<IoError>(channels == 1 || channels == 3 || channels == 4, name, ": ", channels,
                   " channels, but 1, 3 and 4 have colours");
  Tensor image = Tensor::empty({height, width, 3}, {.dtype = u8});
  auto* pixels = image.data_ptr<std::uint8_t>();
  std::vector<std::uint8_t> row(channels == 3 ? 0 : static_cast<std::size_t>(channels * width));
  for (std::int64_t y = 0; y < height; ++y, pixels += 3 * width) {
    check(decoder.read_row(channels == 3 ? pixels : row.data()));
    if (channels != 3) widen(row, channels, pixels);
  }
  check(decoder.finish());
  return image;
}

}  // namespace rondo::data

#endif
