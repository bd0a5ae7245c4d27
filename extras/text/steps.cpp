// Reads tokenizer.json (see steps.h). Each make_ function makes one step from its object; names and
// effects are those of Hugging Face's `tokenizers`. A step that is not here is refused by name.
// What the steps do to texts is in text_ops.h.

#include "extras/text/steps.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "extras/text/text_ops.h"
#include "extras/text/unicode.h"
#include "tensor/error.h"

namespace rondo::text {
namespace {

using nlohmann::json;
using Normalizer = std::function<std::string(std::string)>;
using PreTokenizer = std::function<Texts(std::string, bool)>;
using PostProcessor = std::function<Ids(Ids)>;
using Decoder = std::function<Texts(Texts)>;

const json& field(const json& object, const char* key, std::string_view what) {
  require<IoError>(object.is_object(), "the ", what, " is not an object");
  const auto found = object.find(key);
  require<IoError>(found != object.end(), "the ", what, " has no field ", key);
  return *found;
}

/// Not a float, which may be too large for an integer.
std::int64_t integer_of(const json& value, std::string_view what) {
  require<IoError>(value.is_number_integer(), "the ", what, " is ", value.dump(),
                   ", not an integer");
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  require<IoError>(!value.is_number_unsigned() || value.get<std::uint64_t>() <= largest, "the ",
                   what, " is ", value.dump(), ", which is too large");
  return value.get<std::int64_t>();
}

/// The field, or the default if it is missing or null.
template <class T>
T field_or(const json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  if constexpr (std::is_same_v<T, std::int64_t>)
    return integer_of(*found, key);
  else
    return found->get<T>();
}

std::string text_of(const json& object, const char* key, std::string_view what) {
  return field(object, key, what).get<std::string>();
}

[[noreturn]] void refuse_type(std::string_view what, const std::string& type) {
  throw IoError(concat("rondo does not have the ", what, " ", type));
}

/// The steps in the field `list` of a Sequence, made by `make`.
template <class Make>
auto sequence_of(const json& object, const char* list, std::string_view what, int depth,
                 Make make) {
  require<IoError>(depth < 8, "the ", what, " has Sequences inside Sequences, more than 8 deep");
  std::vector<decltype(make(object, depth))> steps;
  for (const json& each : field(object, list, what)) steps.push_back(make(each, depth + 1));
  return steps;
}

/// f(text) for the Replace that `object` describes, whose pattern is {"String": …} or {"Regex": …}.
Normalizer make_replace(const json& object) {
  const json& pattern = field(object, "pattern", "Replace");
  const std::string to = text_of(object, "content", "Replace");
  if (pattern.contains("Regex")) {
    return [regex = Regex(pattern["Regex"].get<std::string>()), to](const std::string& text) {
      std::string out;
      for (const Piece& piece : regex.split(text)) out += piece.is_match ? to : piece.text;
      return out;
    };
  }
  return [from = text_of(pattern, "String", "pattern of a Replace"), to](const std::string& text) {
    return replaced(text, from, to);
  };
}

// -- normalizers -----------------------------------------------------------------------------

Normalizer make_normalizer(const json& object, int depth) {
  if (object.is_null()) return [](std::string text) { return text; };
  const std::string type = text_of(object, "type", "normalizer");
  const std::map<std::string, NormalForm> forms = {{"NFC", NormalForm::nfc},
                                                   {"NFD", NormalForm::nfd},
                                                   {"NFKC", NormalForm::nfkc},
                                                   {"NFKD", NormalForm::nfkd}};
  if (const auto form = forms.find(type); form != forms.end())
    return [form = form->second](const std::string& text) { return normalized(text, form); };
  if (type == "Lowercase") return [](const std::string& text) { return lower_case(text); };
  if (type == "StripAccents") return [](const std::string& text) { return without(is_mark, text); };
  if (type == "Replace") return make_replace(object);
  if (type == "Prepend") {
    return [start = text_of(object, "prepend", "Prepend")](const std::string& text) {
      return text.empty() ? text : start + text;
    };
  }
  if (type == "BertNormalizer") {
    const bool clean = field_or(object, "clean_text", true),
               chinese = field_or(object, "handle_chinese_chars", true),
               lower = field_or(object, "lowercase", true),
               strip = field_or(object, "strip_accents", lower);
    return [=](const std::string& text) {
      std::string y = bert_cleaned(text, clean, chinese);
      if (strip) y = without(is_nonspacing_mark, normalized(y, NormalForm::nfd));
      return lower ? lower_case(y) : y;
    };
  }
  if (type == "Sequence") {
    return [steps = sequence_of(object, "normalizers", "normalizer", depth, make_normalizer)](
               std::string text) {
      for (const Normalizer& step : steps) text = step(std::move(text));
      return text;
    };
  }
  refuse_type("normalizer", type);
}

// -- pre-tokenizers --------------------------------------------------------------------------

constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

PreTokenizer make_byte_level(const json& object) {
  const bool add_prefix_space = field_or(object, "add_prefix_space", true);
  const auto regex = field_or(object, "use_regex", true) ? std::optional(Regex(gpt2_pattern))
                                                         : std::optional<Regex>();
  return [=](std::string text, bool) {
    if (add_prefix_space && !text.starts_with(' ')) text.insert(0, " ");
    const std::vector<Piece> pieces =
        regex ? regex->split(text) : std::vector<Piece>(1, Piece{text, true});
    Texts words;
    for (const Piece& piece : pieces) words.push_back(byte_level_encoded(piece.text));
    return words;
  };
}

struct MetaspaceOptions {
  std::string replacement, prepend_scheme;
  bool split = true;

  explicit MetaspaceOptions(const json& object)
      : replacement(field_or<std::string>(object, "replacement", "\u2581")),
        prepend_scheme(
            field_or<std::string>(object, "prepend_scheme",
                                  field_or(object, "add_prefix_space", true) ? "always" : "never")),
        split(field_or(object, "split", true)) {}
};

/// SentencePiece's: spaces become a visible character, which begins words.
PreTokenizer make_metaspace(const json& object) {
  return [o = MetaspaceOptions(object)](const std::string& given, bool first) {
    std::string text = replaced(given, " ", o.replacement);
    const bool prepends = o.prepend_scheme == "always" || (o.prepend_scheme == "first" && first);
    if (prepends && !text.starts_with(o.replacement)) text.insert(0, o.replacement);
    if (!o.split) return Texts{text};
    Texts words;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t next = std::min(text.find(o.replacement, at + 1), text.size());
      words.push_back(text.substr(at, next - at));
      at = next;
    }
    return words;
  };
}

PreTokenizer make_split(const Regex& regex, bool keeps_matches, bool keeps_others) {
  return [=](const std::string& text, bool) {
    Texts words;
    for (Piece& piece : regex.split(text))
      if (piece.is_match ? keeps_matches : keeps_others) words.push_back(std::move(piece.text));
    return words;
  };
}

/// A regular expression that matches `text` itself.
std::string quoted(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_sign =
        static_cast<unsigned char>(c) < 128 && std::ispunct(static_cast<unsigned char>(c)) != 0;
    pattern += is_sign ? std::string{'\\', c} : std::string{c};
  }
  return pattern;
}

PreTokenizer make_pre_tokenizer(const json& object, int depth) {
  if (object.is_null()) return [](std::string text, bool) { return Texts{std::move(text)}; };
  const std::string type = text_of(object, "type", "pre_tokenizer");
  if (type == "ByteLevel") return make_byte_level(object);
  if (type == "BertPreTokenizer")
    return [](const std::string& text, bool) { return bert_words(text); };
  if (type == "Metaspace") return make_metaspace(object);
  if (type == "Whitespace") return make_split(Regex(R"(\w+|[^\w\s]+)"), true, false);
  if (type == "WhitespaceSplit") return make_split(Regex(R"(\s+)"), false, true);
  if (type == "Split") {
    const json& pattern = field(object, "pattern", "Split");
    const std::string behavior = text_of(object, "behavior", "Split");
    if (behavior != "Isolated" && behavior != "Removed") refuse_type("behavior of Split", behavior);
    const bool removed = behavior == "Removed", inverted = field_or(object, "invert", false);
    const std::string regex = pattern.contains("Regex")
                                  ? pattern["Regex"].get<std::string>()
                                  : quoted(text_of(pattern, "String", "pattern of Split"));
    return make_split(Regex(regex), !removed || inverted, !removed || !inverted);
  }
  if (type == "Sequence") {
    return [steps = sequence_of(object, "pretokenizers", "pre_tokenizer", depth,
                                make_pre_tokenizer)](std::string text, bool first) {
      Texts words = {std::move(text)};
      for (const PreTokenizer& step : steps) {
        Texts parts;
        for (std::size_t i = 0; i < words.size(); ++i)
          for (std::string& part : step(std::move(words[i]), first && i == 0))
            parts.push_back(std::move(part));
        words = std::move(parts);
      }
      return words;
    };
  }
  refuse_type("pre_tokenizer", type);
}

// -- models ----------------------------------------------------------------------------------

/// "a b", or ["a", "b"] in newer files.
std::pair<std::string, std::string> pair_in(const json& merge) {
  if (merge.is_array() && merge.size() == 2)
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const auto text = merge.get<std::string>();
  const std::size_t space = text.find(' ');
  require<IoError>(space != std::string::npos, "the merge \"", text, "\" is not two tokens");
  return {text.substr(0, space), text.substr(space + 1)};
}

std::function<void(const std::string&, Ids&)> make_model(const json& object,
                                                         const Vocabulary& vocabulary) {
  // Older files do not name the type.
  const std::string type =
      field_or<std::string>(object, "type", object.contains("merges") ? "BPE" : "WordPiece");
  const auto text = [&](const char* key) { return field_or<std::string>(object, key, ""); };
  if (type == "BPE") {
    if (field_or(object, "dropout", 0.0) != 0) refuse_type("model", "BPE with dropout");
    std::vector<std::pair<std::string, std::string>> merges;
    for (const json& merge : field(object, "merges", "model")) merges.push_back(pair_in(merge));
    const BpeOptions options = {.unk_token = text("unk_token"),
                                .continuing_subword_prefix = text("continuing_subword_prefix"),
                                .end_of_word_suffix = text("end_of_word_suffix"),
                                .fuse_unk = field_or(object, "fuse_unk", false),
                                .byte_fallback = field_or(object, "byte_fallback", false),
                                .ignore_merges = field_or(object, "ignore_merges", false)};
    return Bpe(options, merges, vocabulary);
  }
  if (type == "WordPiece") {
    const WordPieceOptions options = {
        .unk_token = text_of(object, "unk_token", "model"),
        .continuing_subword_prefix = text("continuing_subword_prefix"),
        .max_input_chars_per_word =
            field_or(object, "max_input_chars_per_word", std::int64_t{100})};
    return WordPiece(options, vocabulary);
  }
  refuse_type("model", type);
}

/// Ids are below 2^31, so that two of them fit into a key.
std::int64_t checked_id(const json& value, const std::string& token) {
  const std::int64_t id = integer_of(value, "id of the token " + token);
  require<IoError>(id >= 0 && id < std::int64_t{1} << 31, "the id ", id, " of the token ", token,
                   " is not from 0 to 2147483647");
  return id;
}

// -- post-processors -------------------------------------------------------------------------

PostProcessor make_post_processor(const json& object, int depth) {
  if (object.is_null()) return [](Ids ids) { return ids; };
  const std::string type = text_of(object, "type", "post_processor");
  if (type == "ByteLevel") return [](Ids ids) { return ids; };  // it changes offsets only
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto id = [&](const char* key) {
      return integer_of(field(object, key, "post_processor").at(1), key);
    };
    return [cls = id("cls"), sep = id("sep")](Ids ids) {
      ids.insert(ids.begin(), cls);
      ids.push_back(sep);
      return ids;
    };
  }
  if (type == "TemplateProcessing") {
    Ids before, after;
    bool is_after = false;
    const json& tokens = field(object, "special_tokens", "post_processor");
    for (const json& item : field(object, "single", "post_processor")) {
      if (item.contains("Sequence")) {
        is_after = true;
        continue;
      }
      const std::string name =
          text_of(field(item, "SpecialToken", "template"), "id", "SpecialToken");
      for (const json& id : field(field(tokens, name.c_str(), "special_tokens"), "ids", "token"))
        (is_after ? after : before).push_back(integer_of(id, "id of " + name));
    }
    return [before, after](Ids ids) {
      ids.insert(ids.begin(), before.begin(), before.end());
      ids.insert(ids.end(), after.begin(), after.end());
      return ids;
    };
  }
  if (type == "Sequence") {
    return [steps = sequence_of(object, "processors", "post_processor", depth,
                                make_post_processor)](Ids ids) {
      for (const PostProcessor& step : steps) ids = step(std::move(ids));
      return ids;
    };
  }
  refuse_type("post_processor", type);
}

// -- decoders --------------------------------------------------------------------------------

/// A decoder that changes each token by f(token, its place).
template <class F>
Decoder each_token(F f) {
  return [f](Texts tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = f(std::move(tokens[i]), i);
    return tokens;
  };
}

Decoder make_decoder(const json& object, int depth) {
  if (object.is_null())
    return each_token(
        [](const std::string& token, std::size_t i) { return (i > 0 ? " " : "") + token; });
  const std::string type = text_of(object, "type", "decoder");
  if (type == "ByteLevel") return byte_level_decoded;
  if (type == "ByteFallback") return byte_fallback_decoded;
  if (type == "Fuse") {
    return [](const Texts& tokens) {
      std::string all;
      for (const std::string& token : tokens) all += token;
      return Texts{all};
    };
  }
  if (type == "Replace") {
    return each_token([replace = make_replace(object)](const std::string& token, std::size_t) {
      return replace(token);
    });
  }
  if (type == "Strip") {
    const std::string content = text_of(object, "content", "Strip");
    require<IoError>(!content.empty(), "a Strip has no content");
    const auto start = field_or(object, "start", std::int64_t{0}),
               stop = field_or(object, "stop", std::int64_t{0});
    return each_token([=](std::string token, std::size_t) {
      return stripped(std::move(token), content, start, stop);
    });
  }
  if (type == "WordPiece") {
    const auto prefix = field_or<std::string>(object, "prefix", "##");
    const bool cleanup = field_or(object, "cleanup", true);
    return each_token([=](std::string token, std::size_t i) {
      if (i > 0 && token.starts_with(prefix))
        token.erase(0, prefix.size());
      else if (i > 0)
        token.insert(0, " ");
      return cleanup ? cleaned_up(std::move(token)) : token;
    });
  }
  if (type == "Metaspace") {
    return each_token([o = MetaspaceOptions(object)](std::string token, std::size_t i) {
      if (i == 0 && o.prepend_scheme != "never" && token.starts_with(o.replacement))
        token.erase(0, o.replacement.size());
      return replaced(token, o.replacement, " ");
    });
  }
  if (type == "Sequence") {
    return [steps = sequence_of(object, "decoders", "decoder", depth, make_decoder)](Texts tokens) {
      for (const Decoder& step : steps) tokens = step(std::move(tokens));
      return tokens;
    };
  }
  refuse_type("decoder", type);
}

}  // namespace

Steps read_steps(std::string_view text) {
  try {
    const json all = json::parse(text);
    const auto part = [&](const char* key) { return field_or(all, key, json()); };
    const json& model = field(all, "model", "file");
    Steps steps;
    for (const auto& [token, id] : field(model, "vocab", "model").items())
      steps.vocabulary.emplace(token, checked_id(id, token));
    steps.normalizer = make_normalizer(part("normalizer"), 0);
    steps.pre_tokenizer = make_pre_tokenizer(part("pre_tokenizer"), 0);
    steps.model = make_model(model, steps.vocabulary);
    steps.post_processor = make_post_processor(part("post_processor"), 0);
    steps.decoder = make_decoder(part("decoder"), 0);
    for (const json& each : field_or(all, "added_tokens", json::array())) {
      const std::string content = text_of(each, "content", "added token");
      require<IoError>(!content.empty(), "an added token has no content");
      steps.added_tokens.push_back({.content = content,
                                    .id = checked_id(field(each, "id", "added token"), content),
                                    .single_word = field_or(each, "single_word", false),
                                    .lstrip = field_or(each, "lstrip", false),
                                    .rstrip = field_or(each, "rstrip", false),
                                    .normalized = field_or(each, "normalized", true),
                                    .special = field_or(each, "special", false)});
    }
    return steps;
  } catch (const json::exception& error) {
    throw IoError(concat("not a tokenizer.json (", error.what(), ")"));
  }
}

}  // namespace rondo::text
