#pragma once
// What the steps of tokenizers do to texts (steps.h), without the file's format. Internal to
// extras/text.

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::text {

using Texts = std::vector<std::string>;

/// The text with each `from` replaced. Throws IoError if `from` is empty.
std::string replaced(const std::string& text, const std::string& from, const std::string& to);
/// The text without some characters, such as accents (is_mark, after NormalForm::nfd).
std::string without(bool (*is_unwanted)(char32_t), const std::string& text);
/// BERT's: removes control characters, makes all white space a space, and puts spaces around
/// Chinese characters.
std::string bert_cleaned(const std::string& text, bool clean_text, bool handle_chinese_chars);
/// BERT's words, of other characters than white space; each punctuation mark is a word.
Texts bert_words(const std::string& text);
/// GPT-2's: a printable character for each byte, itself if it is a printable one of Latin-1.
std::string byte_level_encoded(const std::string& bytes);
/// The bytes of such texts, as one text.
Texts byte_level_decoded(const Texts& tokens);
/// Tokens <0x..> next to each other become one text; if it is not UTF-8, each byte becomes U+FFFD.
Texts byte_fallback_decoded(const Texts& tokens);
/// Without the spaces that BERT's tokens leave in front of marks and in contractions.
std::string cleaned_up(std::string text);
/// The token without up to `start` characters `content` at its beginning, and up to `stop` at its
/// end.
std::string stripped(std::string token, const std::string& content, std::int64_t start,
                     std::int64_t stop);

}  // namespace rondo::text
