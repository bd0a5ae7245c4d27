#pragma once
// The steps that a tokenizer.json names, as functions. Internal to extras/text.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "extras/text/models.h"
#include "extras/text/text_ops.h"

namespace rondo::text {

struct AddedToken {
  std::string content;
  std::int64_t id = 0;
  bool single_word = false;             // not inside a word
  bool lstrip = false, rstrip = false;  // includes the white space on its left, on its right
  bool normalized = false;              // is searched in the normalised text
  bool special = false;
};

struct Steps {
  std::vector<AddedToken> added_tokens;
  std::function<std::string(std::string)> normalizer;
  /// Splits a text into words; `first`: it is the beginning of the whole text.
  std::function<Texts(std::string, bool first)> pre_tokenizer;
  Vocabulary vocabulary;
  /// Appends the tokens of a word.
  std::function<void(const std::string&, Ids&)> model;
  std::function<Ids(Ids)> post_processor;
  /// Texts of tokens to texts whose concatenation is the result, which need not be UTF-8.
  std::function<Texts(Texts)> decoder;
};

/// Throws IoError, without a file name, as Tokenizer's constructor does.
Steps read_steps(std::string_view json);

}  // namespace rondo::text
