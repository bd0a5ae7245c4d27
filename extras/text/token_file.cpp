// TokenFile (see token_file.h).

#include "extras/text/token_file.h"

#include <cstddef>
#include <vector>

#include "io/atomic_file.h"
#include "tensor/creation.h"
#include "tensor/draw.h"
#include "tensor/random.h"

namespace rondo::text {
namespace {

std::int64_t bytes_of(TokenWidth width) { return static_cast<std::int64_t>(width); }

}  // namespace

TokenFile::TokenFile(const std::string& path, const TokenFileOptions& options)
    : options_(options), file_(std::make_shared<const io::MappedFile>(path)) {
  const auto bytes = static_cast<std::int64_t>(file_->bytes().size());
  const std::int64_t width = bytes_of(options.width);
  require(options.context >= 1, "TokenFile: the context is ", options.context,
          ", but must be at least 1");
  require(options.windows >= 0, "TokenFile: the number of windows is ", options.windows,
          ", but must not be negative");
  require<IoError>(bytes % width == 0, path, ": ", bytes,
                   " bytes are not a whole number of tokens of ", width, " bytes");
  tokens_ = bytes / width;
  require<IoError>(tokens_ > options.context, path, ": ", tokens_,
                   " tokens are too few for windows of ", options.context + 1);
  windows_ = options.windows > 0 ? options.windows : tokens_ / (options.context + 1);
}

data::Sample TokenFile::get_epoch_sample(std::uint64_t stream, std::int64_t index) const {
  const Philox random{options_.seed, stream};
  const std::int64_t begin =
      draw_integer(random, static_cast<std::uint64_t>(index), 0, tokens_ - options_.context);
  const Tensor window = tokens(begin, options_.context + 1);
  return {window.narrow(0, 0, options_.context), window.narrow(0, 1, options_.context)};
}

Tensor TokenFile::tokens(std::int64_t begin, std::int64_t length) const {
  require<ShapeError>(begin >= 0 && length >= 0 && begin <= tokens_ && length <= tokens_ - begin,
                      "TokenFile: tokens ", begin, " to ", begin + length, " of ", tokens_);
  const std::int64_t width = bytes_of(options_.width);
  const std::byte* at = file_->bytes().data() + begin * width;
  std::vector<std::int64_t> values(static_cast<std::size_t>(length));
  for (std::int64_t& value : values)
    for (std::int64_t b = 0; b < width; ++b) value |= std::to_integer<std::int64_t>(*at++) << 8 * b;
  return tensor(values);
}

void write_tokens(const std::string& path, std::span<const std::int64_t> tokens, TokenWidth width) {
  std::vector<std::byte> bytes;
  bytes.reserve(tokens.size() * static_cast<std::size_t>(width));
  for (const std::int64_t token : tokens) {
    require(token >= 0 && token >> 8 * bytes_of(width) == 0, "write_tokens: token ", token,
            " does not fit ", bytes_of(width), " bytes");
    for (std::int64_t b = 0; b < bytes_of(width); ++b)
      bytes.push_back(static_cast<std::byte>(token >> 8 * b & 255));
  }
  io::AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace rondo::text
