// Byte-pair encoding and WordPiece (see models.h).

#include "extras/text/models.h"

#include <cstdio>
#include <functional>
#include <queue>
#include <tuple>

#include "extras/text/unicode.h"
#include "tensor/error.h"

namespace rondo::text {
namespace {

std::optional<std::int64_t> id_of(const Vocabulary& vocabulary, const std::string& token) {
  const auto found = vocabulary.find(token);
  return found == vocabulary.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t unknown_id(const Vocabulary& vocabulary, const std::string& token) {
  const auto id = id_of(vocabulary, token);
  require<IoError>(id.has_value(), "the model's unk_token ", token, " is not in its vocab");
  return *id;
}

/// A pair of tokens, as a key.
std::uint64_t pair_of(std::int64_t left, std::int64_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

Bpe::Bpe(BpeOptions given, const std::vector<std::pair<std::string, std::string>>& pairs,
         Vocabulary tokens)
    : options(std::move(given)), vocabulary(std::move(tokens)) {
  if (!options.unk_token.empty()) unknown = unknown_id(vocabulary, options.unk_token);
  const std::string& prefix = options.continuing_subword_prefix;
  for (const auto& [left, right] : pairs) {
    const bool cut = !prefix.empty() && right.starts_with(prefix);
    const auto a = id_of(vocabulary, left), b = id_of(vocabulary, right),
               both = id_of(vocabulary, left + (cut ? right.substr(prefix.size()) : right));
    require<IoError>(a && b && both, "merge ", merges.size(), " (", left, " ", right,
                     ") has a token that is not in the vocab");
    merges.emplace(pair_of(*a, *b), Merge{static_cast<std::int64_t>(merges.size()), *both});
  }
}

/// A token <0x..> for each byte; false if one is missing.
bool Bpe::add_bytes(const std::string& character, Ids& ids) const {
  Ids bytes;
  for (const char byte : character) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>",
                  static_cast<unsigned>(static_cast<unsigned char>(byte)));
    const auto id = id_of(vocabulary, name);
    if (!id) return false;
    bytes.push_back(*id);
  }
  ids.insert(ids.end(), bytes.begin(), bytes.end());
  return true;
}

/// The token of each character. Without an unknown token, characters that have no token are left
/// out.
Ids Bpe::characters(const std::string& word) const {
  Ids ids;
  bool after_unknown = false;
  const std::u32string all = code_points(word);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string character = to_utf8({&all[i], 1});
    const auto id = id_of(vocabulary, (i > 0 ? options.continuing_subword_prefix : "") + character +
                                          (i + 1 == all.size() ? options.end_of_word_suffix : ""));
    const bool is_known = id || (options.byte_fallback && add_bytes(character, ids));
    if (id)
      ids.push_back(*id);
    else if (!is_known && unknown && !(options.fuse_unk && after_unknown))
      ids.push_back(*unknown);
    after_unknown = !is_known;
  }
  return ids;
}

/// Merges the pair of the lowest rank, the leftmost first, until no pair is left: a queue of pairs
/// over a list of tokens, since a word may be a whole text.
void Bpe::merge(Ids& ids) const {
  using Entry = std::tuple<std::int64_t, std::size_t, std::uint64_t>;  // rank, left token, pair
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const std::size_t n = ids.size();
  std::vector<std::size_t> next(n), previous(n);
  for (std::size_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // of 0: above n
  }
  const auto look_at = [&](std::size_t i) {
    if (i >= n || next[i] >= n) return;
    const std::uint64_t pair = pair_of(ids[i], ids[next[i]]);
    if (const auto found = merges.find(pair); found != merges.end())
      queue.emplace(found->second.rank, i, pair);
  };
  for (std::size_t i = 0; i < n; ++i) look_at(i);
  while (!queue.empty()) {
    const auto [rank, i, pair] = queue.top();
    queue.pop();
    if (ids[i] < 0 || next[i] >= n || pair_of(ids[i], ids[next[i]]) != pair) continue;  // outdated
    const std::size_t gone = next[i];
    ids[i] = merges.at(pair).id;
    ids[gone] = -1;
    next[i] = next[gone];
    if (next[i] < n) previous[next[i]] = i;
    look_at(previous[i]);
    look_at(i);
  }
  std::erase(ids, -1);
}

void Bpe::operator()(const std::string& word, Ids& ids) const {
  if (options.ignore_merges) {
    if (const auto id = id_of(vocabulary, word)) return ids.push_back(*id);
  }
  Ids tokens = characters(word);
  merge(tokens);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

WordPiece::WordPiece(WordPieceOptions given, Vocabulary tokens)
    : options(std::move(given)),
      vocabulary(std::move(tokens)),
      unknown(unknown_id(vocabulary, options.unk_token)) {}

void WordPiece::operator()(const std::string& word, Ids& ids) const {
  const std::u32string all = code_points(word);
  const bool is_short = static_cast<std::int64_t>(all.size()) <= options.max_input_chars_per_word;
  Ids found;
  std::size_t begin = 0;
  while (begin < all.size() && is_short) {
    std::size_t end = all.size();
    std::optional<std::int64_t> id;
    for (; end > begin; --end) {
      const std::string part = to_utf8(std::u32string_view(all).substr(begin, end - begin));
      id = id_of(vocabulary, begin > 0 ? options.continuing_subword_prefix + part : part);
      if (id) break;
    }
    if (!id) break;
    found.push_back(*id);
    begin = end;
  }
  if (begin < all.size()) found = {unknown};
  ids.insert(ids.end(), found.begin(), found.end());
}

}  // namespace rondo::text
