// Tokenizer (see tokenizer.h): added tokens, and the order of the steps.

#include "extras/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "extras/text/steps.h"
#include "extras/text/unicode.h"
#include "io/mapped_file.h"
#include "tensor/error.h"

namespace rondo::text {
/// Finds added tokens in a text: the leftmost one, and the longest of those that begin there.
class AddedTokens {
 public:
  void add(const AddedToken& token, const std::string& text) {
    if (text.empty()) return;
    auto& list = by_first_byte_[static_cast<unsigned char>(text[0])];
    list.push_back({text, token});
    std::ranges::stable_sort(list, std::ranges::greater(),
                             [](const Entry& entry) { return entry.text.size(); });
  }

  /// Calls other(text, begin) for each part between tokens, and found(id) for each token.
  template <class Other, class Found>
  void split(std::string_view text, Other other, Found found) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Entry* entry = at_place(text, at);
      if (entry == nullptr) {
        ++at;
        continue;
      }
      std::size_t begin = at, end = at + entry->text.size();
      at = end;
      if (entry->token.single_word &&
          (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
        continue;
      if (entry->token.lstrip) begin = std::max(done, begin - space_at_end(text.substr(0, begin)));
      if (entry->token.rstrip) end += space_at_begin(text.substr(end));
      if (begin > done) other(text.substr(done, begin - done), done);
      found(entry->token.id);
      done = at = end;
    }
    if (done < text.size()) other(text.substr(done), done);
  }

 private:
  struct Entry {
    std::string text;
    AddedToken token;
  };

  const Entry* at_place(std::string_view text, std::size_t at) const {
    for (const Entry& entry : by_first_byte_[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(entry.text)) return &entry;
    return nullptr;
  }
  static bool begins_with_word(std::string_view text) {
    return !text.empty() && is_word(code_points(first_character(text))[0]);
  }
  static bool ends_with_word(std::string_view text) {
    return !text.empty() && is_word(code_points(last_character(text))[0]);
  }
  static std::string_view first_character(std::string_view text) {
    std::size_t n = 1;
    while (n < text.size() && continues(text[n])) ++n;
    return text.substr(0, n);
  }
  static std::string_view last_character(std::string_view text) {
    std::size_t at = text.size() - 1;
    while (at > 0 && continues(text[at])) --at;
    return text.substr(at);
  }
  static bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
  static std::size_t space_at_begin(std::string_view text) {
    std::size_t n = 0;
    while (n < text.size()) {
      const std::string_view c = first_character(text.substr(n));
      if (!is_white_space(code_points(c)[0])) break;
      n += c.size();
    }
    return n;
  }
  static std::size_t space_at_end(std::string_view text) {
    std::size_t n = 0;
    while (n < text.size()) {
      const std::string_view c = last_character(text.substr(0, text.size() - n));
      if (!is_white_space(code_points(c)[0])) break;
      n += c.size();
    }
    return n;
  }

  std::array<std::vector<Entry>, 256> by_first_byte_;
};

struct Tokenizer::Parts {
  Steps steps;
  AddedTokens raw, normalized;  // searched before and after normalisation
  std::unordered_map<std::string, std::int64_t> ids;
  std::unordered_map<std::int64_t, std::string> texts;
  std::unordered_map<std::int64_t, bool> special;

  explicit Parts(Steps given) : steps(std::move(given)), ids(steps.vocabulary) {
    for (const auto& [text, id] : ids) texts.insert_or_assign(id, text);
    for (const AddedToken& token : steps.added_tokens) {
      const std::string text = token.normalized ? steps.normalizer(token.content) : token.content;
      (token.normalized ? normalized : raw).add(token, text);
      ids.insert_or_assign(token.content, token.id);
      texts.insert_or_assign(token.id, text);
      special[token.id] = token.special;
    }
  }
};

Tokenizer Tokenizer::from_str(std::string_view json, const std::string& name) {
  try {
    return Tokenizer(std::make_shared<const Parts>(read_steps(json)));
  } catch (const IoError& error) {
    throw IoError(concat(name, ": ", error.what()));
  }
}

Tokenizer::Tokenizer(const std::string& path) {
  const io::MappedFile file(path);
  const auto* bytes = reinterpret_cast<const char*>(file.bytes().data());
  *this = from_str({bytes, file.bytes().size()}, path);
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const Parts& p = *parts_;
  code_points(text);  // throws if the text is not UTF-8
  Ids ids;
  const auto add = [&](std::int64_t id) { ids.push_back(id); };
  p.raw.split(
      text,
      [&](std::string_view part, std::size_t begin) {
        p.normalized.split(
            p.steps.normalizer(std::string(part)),
            [&](std::string_view rest, std::size_t at) {
              for (const std::string& word :
                   p.steps.pre_tokenizer(std::string(rest), begin == 0 && at == 0))
                p.steps.model(word, ids);
            },
            add);
      },
      add);
  return options.add_special_tokens ? p.steps.post_processor(std::move(ids)) : ids;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, DecodeOptions options) const {
  Texts tokens;
  for (const std::int64_t id : ids) {
    const std::string& text = id_to_token(id);
    const auto found = parts_->special.find(id);
    const bool is_special = found != parts_->special.end() && found->second;
    if (!is_special || !options.skip_special_tokens) tokens.push_back(text);
  }
  std::string all;
  for (const std::string& part : parts_->steps.decoder(std::move(tokens))) all += part;
  return all;
}

std::optional<std::int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto found = parts_->ids.find(std::string(token));
  return found == parts_->ids.end() ? std::nullopt : std::optional(found->second);
}

const std::string& Tokenizer::id_to_token(std::int64_t id) const {
  const auto found = parts_->texts.find(id);
  require(found != parts_->texts.end(), "Tokenizer: no token has the id ", id);
  return found->second;
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(parts_->texts.size());
}

}  // namespace rondo::text
