// Unicode by ICU (see unicode.h).

#include "extras/text/unicode.h"

#include "tensor/error.h"

#ifdef RONDO_HAS_ICU
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/regex.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>
#endif

namespace rondo::text {

#ifdef RONDO_HAS_ICU

namespace {

std::string utf8_of(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

icu::UnicodeString utf16_of(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
}

const icu::Normalizer2& normalizer_of(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalForm::nfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalForm::nfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalForm::nfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalForm::nfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  require(U_SUCCESS(status) != 0, "ICU has no data for normal forms: ", u_errorName(status));
  return *found;
}

auto category_mask(char32_t c) { return U_GET_GC_MASK(static_cast<UChar32>(c)); }

/// Calls f(code point, first byte) for each character; the code point is negative where the bytes
/// are not UTF-8.
template <class F>
void for_each_code_point(std::string_view text, F f) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto length = static_cast<std::int64_t>(text.size());
  for (std::int64_t i = 0; i < length;) {
    const std::int64_t first = i;
    UChar32 c = 0;
    U8_NEXT(bytes, i, length, c);
    f(c, first);
  }
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for_each_code_point(text, [&](UChar32 c, std::int64_t first) {
    require(c >= 0, "Tokenizer: the text is not UTF-8 at byte ", first);
    out.push_back(static_cast<char32_t>(c));
  });
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) {
    std::uint8_t bytes[U8_MAX_LENGTH];
    std::int32_t n = 0;
    U8_APPEND_UNSAFE(bytes, n, static_cast<UChar32>(c));
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n));
  }
  return out;
}

std::string repaired_utf8(std::string_view bytes) {
  std::u32string out;
  for_each_code_point(bytes, [&](UChar32 c, std::int64_t) {
    out.push_back(c < 0 ? U'\uFFFD' : static_cast<char32_t>(c));
  });
  return to_utf8(out);
}

std::string normalized(std::string_view text, NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString result = normalizer_of(form).normalize(utf16_of(text), status);
  require(U_SUCCESS(status) != 0, "ICU cannot normalise a text: ", u_errorName(status));
  return utf8_of(result);
}

std::string lower_case(std::string_view text) {
  std::string out;
  for (const char32_t c : code_points(text)) {
    icu::UnicodeString letter(static_cast<UChar32>(c));
    letter.toLower(icu::Locale::getRoot()).toUTF8String(out);
  }
  return out;
}

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }
bool is_punctuation(char32_t c) { return (category_mask(c) & U_GC_P_MASK) != 0; }
bool is_nonspacing_mark(char32_t c) { return (category_mask(c) & U_GC_MN_MASK) != 0; }
bool is_mark(char32_t c) { return (category_mask(c) & U_GC_M_MASK) != 0; }
bool is_word(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  return u_isUAlphabetic(point) != 0 || u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL) != 0 ||
         (category_mask(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}
bool is_control(char32_t c) {
  return (category_mask(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

Regex::Regex(const std::string& pattern) {
  std::string icus;  // whose \s has fewer characters
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      icus += pattern[i];
      continue;
    }
    const char next = pattern[++i];
    if (next == 's' || next == 'S')
      icus += next == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
    else
      icus += {'\\', next};
  }
  UErrorCode status = U_ZERO_ERROR;
  pattern_ = std::shared_ptr<const icu::RegexPattern>(
      icu::RegexPattern::compile(utf16_of(icus), UREGEX_MULTILINE | UREGEX_UNIX_LINES, status));
  require<IoError>(U_SUCCESS(status) != 0, "ICU cannot read the regular expression ", pattern, " (",
                   u_errorName(status), ")");
}

std::vector<Piece> Regex::split(std::string_view text) const {
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString wide = utf16_of(text);
  const std::unique_ptr<icu::RegexMatcher> matcher(
      static_cast<const icu::RegexPattern*>(pattern_.get())->matcher(wide, status));
  // In steps of 10,000 states: a pattern from a file may take exponential time.
  if (matcher != nullptr) matcher->setTimeLimit(1000 + wide.length(), status);
  std::vector<Piece> pieces;
  const auto add = [&](std::int32_t begin, std::int32_t end, bool is_match) {
    if (begin < end) pieces.push_back({utf8_of(wide.tempSubStringBetween(begin, end)), is_match});
  };
  std::int32_t done = 0;
  while (U_SUCCESS(status) != 0 && matcher->find(status) != 0) {
    const std::int32_t begin = matcher->start(status), end = matcher->end(status);
    add(done, begin, false);
    add(begin, end, true);
    done = end;
  }
  require(U_SUCCESS(status) != 0, "Tokenizer: ICU cannot split a text of ", text.size(),
          " bytes by the regular expression (", u_errorName(status), ")");
  add(done, wide.length(), false);
  return pieces;
}

#else

namespace {

[[noreturn]] void refuse() {
  throw Error(
      "Tokenizer: rondo was built without ICU (apt-get install libicu-dev, and configure again)");
}

}  // namespace

std::u32string code_points(std::string_view) { refuse(); }
std::string to_utf8(std::u32string_view) { refuse(); }
std::string repaired_utf8(std::string_view) { refuse(); }
std::string normalized(std::string_view, NormalForm) { refuse(); }
std::string lower_case(std::string_view) { refuse(); }
bool is_white_space(char32_t) { refuse(); }
bool is_punctuation(char32_t) { refuse(); }
bool is_nonspacing_mark(char32_t) { refuse(); }
bool is_mark(char32_t) { refuse(); }
bool is_word(char32_t) { refuse(); }
bool is_control(char32_t) { refuse(); }
Regex::Regex(const std::string&) { refuse(); }
std::vector<Piece> Regex::split(std::string_view) const { refuse(); }

#endif

}  // namespace rondo::text
