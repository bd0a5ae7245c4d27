#pragma once
// TokenFile: the tokens of a long text in a file, and random windows of them as a data set. The
// file is mapped into memory, so it may be larger than memory.
//
//   text::write_tokens("train.bin", tokenizer.encode(text), text::TokenWidth::u16);
//   auto tokens = std::make_shared<text::TokenFile>("train.bin", options);
//   data::DataLoader loader(tokens, {.batch_size = 32});
//   for (auto& [input, target] : loader) { … }   // i64 (32, context) each
//
// The target is the input one token later.
//
// The file has nothing but the tokens, little-endian, as the files of nanoGPT.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/samples.h"
#include "io/mapped_file.h"

namespace rondo::text {

/// Bytes of a token in the file.
enum class TokenWidth : std::uint8_t { u16 = 2, u32 = 4 };

struct TokenFileOptions {
  std::int64_t context = 1024;  // tokens of a window's input
  TokenWidth width = TokenWidth::u16;
  std::int64_t windows = 0;  // of an epoch; 0: as many as the text has without overlap
  std::uint64_t seed = 0;
};

/// Sample i of an epoch is the window that begins at a random token, a function of (seed, epoch,
/// i): input has `context` tokens, target those that follow each of them. A loader need not
/// shuffle.
class TokenFile : public data::SampleDataset {
 public:
  /// Throws IoError naming the file if it cannot be read, or has not a whole number of tokens; and
  /// if it has no window, that is, not more tokens than context. Throws Error if context is below 1
  /// or windows below 0.
  explicit TokenFile(const std::string& path, const TokenFileOptions& options = {});

  std::int64_t size() const override { return windows_; }
  data::Sample get(std::int64_t index) const override { return get_epoch_sample(0, index); }
  data::Sample get_epoch_sample(std::uint64_t stream, std::int64_t index) const override;

  /// The number of tokens in the file.
  std::int64_t num_tokens() const { return tokens_; }
  /// Tokens begin … begin + length - 1, i64 (length), for an evaluation in order. Throws ShapeError
  /// if the file does not have them.
  Tensor tokens(std::int64_t begin, std::int64_t length) const;

 private:
  TokenFileOptions options_;
  std::shared_ptr<const io::MappedFile> file_;
  std::int64_t tokens_ = 0, windows_ = 0;
};

/// Writes a file that TokenFile reads, atomically. Throws Error naming the first token that does
/// not fit the width, and IoError.
void write_tokens(const std::string& path, std::span<const std::int64_t> tokens,
                  TokenWidth width = TokenWidth::u16);

}  // namespace rondo::text
