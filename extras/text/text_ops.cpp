#include "extras/text/text_ops.h"

#include <array>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "extras/text/unicode.h"
#include "tensor/error.h"

namespace rondo::text {
namespace {

bool is_chinese(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> ranges = {{{0x4E00, 0x9FFF},
                                                                    {0x3400, 0x4DBF},
                                                                    {0x20000, 0x2A6DF},
                                                                    {0x2A700, 0x2B73F},
                                                                    {0x2B740, 0x2B81F},
                                                                    {0x2B920, 0x2CEAF},
                                                                    {0xF900, 0xFAFF},
                                                                    {0x2F800, 0x2FA1F}}};
  for (const auto& [first, last] : ranges)
    if (c >= first && c <= last) return true;
  return false;
}

/// A printable character for each byte, itself if it is a printable one of Latin-1.
const std::array<std::string, 256>& characters_of_bytes() {
  static const std::array<std::string, 256> all = [] {
    std::array<std::string, 256> names;
    char32_t next = 256;
    for (char32_t b = 0; b < 256; ++b) {
      const bool is_itself = (b > 32 && b < 127) || (b > 160 && b != 173);
      names[b] = to_utf8(std::u32string{is_itself ? b : next++});
    }
    return names;
  }();
  return all;
}

/// The byte of a token <0x..>.
std::optional<char> fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const std::string digits = token.substr(3, 2);
  if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
  return static_cast<char>(std::stoi(digits, nullptr, 16));
}

}  // namespace

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  require<IoError>(!from.empty(), "a Replace has an empty pattern");
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  return out.append(text, done);
}

std::string without(bool (*is_unwanted)(char32_t), const std::string& text) {
  std::u32string all = code_points(text);
  std::erase_if(all, is_unwanted);
  return to_utf8(all);
}

std::string bert_cleaned(const std::string& text, bool clean_text, bool handle_chinese_chars) {
  const auto is_space = [](char32_t c) { return c == '\t' || c == '\n' || c == '\r'; };
  std::u32string out;
  for (char32_t c : code_points(text)) {
    if (clean_text) {
      if (c == 0 || c == 0xFFFD || (is_control(c) && !is_space(c))) continue;
      if (is_white_space(c)) c = U' ';
    }
    const bool apart = handle_chinese_chars && is_chinese(c);
    out += apart ? std::u32string{U' ', c, U' '} : std::u32string{c};
  }
  return to_utf8(out);
}

Texts bert_words(const std::string& text) {
  Texts words;
  bool continues = false;
  for (const char32_t c : code_points(text)) {
    const bool is_mark = is_punctuation(c) || (c < 128 && std::ispunct(static_cast<int>(c)) != 0);
    if (is_white_space(c)) {
      continues = false;
      continue;
    }
    if (!continues || is_mark) words.emplace_back();
    words.back() += to_utf8({&c, 1});
    continues = !is_mark;
  }
  return words;
}

std::string byte_level_encoded(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += characters_of_bytes()[static_cast<unsigned char>(byte)];
  return text;
}

Texts byte_level_decoded(const Texts& tokens) {
  static const std::unordered_map<std::string, char> byte_of = [] {
    std::unordered_map<std::string, char> all;
    for (std::size_t b = 0; b < 256; ++b)
      all.emplace(characters_of_bytes()[b], static_cast<char>(b));
    return all;
  }();
  std::string bytes;
  for (const std::string& token : tokens) {
    std::string part;
    bool is_bytes = true;
    for (const char32_t c : code_points(token)) {
      const auto found = byte_of.find(to_utf8({&c, 1}));
      is_bytes = is_bytes && found != byte_of.end();
      if (is_bytes) part += found->second;
    }
    bytes += is_bytes ? part : token;  // an added token may have any characters
  }
  return {repaired_utf8(bytes)};
}

Texts byte_fallback_decoded(const Texts& tokens) {
  Texts out;
  std::string bytes;
  const auto end_bytes = [&] {
    if (bytes.empty()) return;
    if (repaired_utf8(bytes) != bytes)
      bytes = replaced(std::string(bytes.size(), '?'), "?", "\uFFFD");
    out.push_back(std::exchange(bytes, {}));
  };
  for (const std::string& token : tokens) {
    if (const auto byte = fallback_byte(token)) {
      bytes += *byte;
      continue;
    }
    end_bytes();
    out.push_back(token);
  }
  end_bytes();
  return out;
}

std::string cleaned_up(std::string text) {
  for (const auto& [from, to] :
       std::initializer_list<std::pair<const char*, const char*>>{{" .", "."},
                                                                  {" ?", "?"},
                                                                  {" !", "!"},
                                                                  {" ,", ","},
                                                                  {" ' ", "'"},
                                                                  {" n't", "n't"},
                                                                  {" 'm", "'m"},
                                                                  {" do not", " don't"},
                                                                  {" 's", "'s"},
                                                                  {" 've", "'ve"},
                                                                  {" 're", "'re"}})
    text = replaced(text, from, to);
  return text;
}

std::string stripped(std::string token, const std::string& content, std::int64_t start,
                     std::int64_t stop) {
  for (std::int64_t i = 0; i < start && token.starts_with(content); ++i)
    token.erase(0, content.size());
  for (std::int64_t i = 0; i < stop && token.ends_with(content); ++i)
    token.erase(token.size() - content.size());
  return token;
}

}  // namespace rondo::text
