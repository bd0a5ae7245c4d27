#pragma once
// What tokenizers need of Unicode, by ICU. Internal to extras/text. Each function throws Error if
// rondo was built without ICU (RONDO_ICU). Texts are UTF-8.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::text {

/// Throws Error naming the first byte that is not UTF-8.
std::u32string code_points(std::string_view text);
std::string to_utf8(std::u32string_view text);
/// The bytes, with U+FFFD for each part that is not UTF-8.
std::string repaired_utf8(std::string_view bytes);

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };
std::string normalized(std::string_view text, NormalForm form);
/// Letter by letter, so without the special form of a sigma at the end of a word.
std::string lower_case(std::string_view text);

bool is_white_space(char32_t c);
bool is_punctuation(char32_t c);
bool is_nonspacing_mark(char32_t c);
bool is_mark(char32_t c);
/// A letter, mark, digit or connector: `\w`.
bool is_word(char32_t c);
/// Control and format characters, and those for private use.
bool is_control(char32_t c);

struct Piece {
  std::string text;
  bool is_match;
};

/// A regular expression, compiled once. `\s` is any white space of Unicode.
class Regex {
 public:
  /// Throws IoError if it is invalid.
  explicit Regex(const std::string& pattern);
  /// The matches and the texts between them, without empty ones. Throws Error if that takes a
  /// regular expression too many steps, which are limited in proportion to the text.
  std::vector<Piece> split(std::string_view text) const;

 private:
  std::shared_ptr<const void> pattern_;
};

}  // namespace rondo::text
