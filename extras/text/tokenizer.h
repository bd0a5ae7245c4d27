#pragma once
// Tokenizer: texts to the numbers that language models read, and back. It reads Hugging Face's
// tokenizer.json, with byte-pair encoding (GPT-2, Llama) or WordPiece (BERT).
//
//   text::Tokenizer tokenizer("gpt2/tokenizer.json");
//   std::vector<std::int64_t> ids = tokenizer.encode("Hello world");
//   std::string text = tokenizer.decode(ids);
//
// A text goes through the steps that the file names: added tokens are cut out; the rest is
// normalised (lower case, accents), split into words, and each word is split into tokens of the
// vocabulary; then special tokens such as [CLS] are added. decode goes back.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::text {

struct EncodeOptions {
  bool add_special_tokens = true;  // those of the file's post_processor
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

/// Gives the ids and texts of Hugging Face's `tokenizers`, whose names the functions have. A file's
/// truncation and padding are ignored: the caller cuts and pads.
class Tokenizer {
 public:
  /// Throws IoError naming the file if it cannot be read, is not such JSON, lacks a field, or names
  /// a step that rondo does not have; Error if rondo was built without ICU (RONDO_ICU).
  explicit Tokenizer(const std::string& path);
  /// The same from the contents of a file; error messages call it `name`.
  static Tokenizer from_str(std::string_view json, const std::string& name = "tokenizer.json");

  /// Throws Error naming the byte if the text is not UTF-8.
  std::vector<std::int64_t> encode(std::string_view text, EncodeOptions options = {}) const;
  /// Throws Error naming an id that no token has. Where the tokens' bytes are not UTF-8, the text
  /// has U+FFFD.
  std::string decode(std::span<const std::int64_t> ids, DecodeOptions options = {}) const;

  /// nullopt: no token has this text.
  std::optional<std::int64_t> token_to_id(std::string_view token) const;
  /// Throws Error naming an id that no token has.
  const std::string& id_to_token(std::int64_t id) const;
  /// The number of tokens, with the added ones.
  std::int64_t vocab_size() const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

}  // namespace rondo::text
