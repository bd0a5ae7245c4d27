#pragma once
// Byte-pair encoding (Sennrich et al. 2016) and WordPiece (Schuster & Nakajima 2012): a word of
// UTF-8 to tokens. Internal to extras/text. The options have the names of tokenizer.json.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rondo::text {

using Ids = std::vector<std::int64_t>;
using Vocabulary = std::unordered_map<std::string, std::int64_t>;

struct BpeOptions {
  std::string unk_token;  // empty: characters without a token are left out
  std::string continuing_subword_prefix, end_of_word_suffix;
  bool fuse_unk = false;       // unknown characters next to each other are one token
  bool byte_fallback = false;  // a character without a token becomes tokens <0x..> of its bytes
  bool ignore_merges = false;  // a word that is a token is that token
};

/// Starts with one token for each character, and merges neighbours in the order of the merges.
struct Bpe {
  struct Merge {
    std::int64_t rank, id;
  };
  BpeOptions options;
  Vocabulary vocabulary;
  std::unordered_map<std::uint64_t, Merge> merges;
  std::optional<std::int64_t> unknown;

  /// Throws IoError naming a token that is not in the vocabulary.
  Bpe(BpeOptions given, const std::vector<std::pair<std::string, std::string>>& pairs,
      Vocabulary tokens);
  void operator()(const std::string& word, Ids& ids) const;

 private:
  Ids characters(const std::string& word) const;
  bool add_bytes(const std::string& character, Ids& ids) const;
  void merge(Ids& ids) const;
};

struct WordPieceOptions {
  std::string unk_token, continuing_subword_prefix;
  std::int64_t max_input_chars_per_word = 100;
};

/// The longest token that begins the word, then the longest with the prefix that begins the rest,
/// and so on. A word that cannot be split this way is one unknown token.
struct WordPiece {
  WordPieceOptions options;
  Vocabulary vocabulary;
  std::int64_t unknown;

  /// Throws IoError if the unknown token is not in the vocabulary.
  WordPiece(WordPieceOptions given, Vocabulary tokens);
  void operator()(const std::string& word, Ids& ids) const;
};

}  // namespace rondo::text
