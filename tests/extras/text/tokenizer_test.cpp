// Tokenizer against Hugging Face's `tokenizers`: the files and strings that
// tests/golden/make_tokenizers.py wrote to tokenizers.txt.

#include "extras/text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/files.h"

namespace rondo::test {
namespace {

using nlohmann::json;
using text::Tokenizer;
using Ids = std::vector<std::int64_t>;

struct TokenizerGolden {
  std::string file;
  std::vector<json> cases;
};

const std::map<std::string, TokenizerGolden>& tokenizer_goldens() {
  static const std::map<std::string, TokenizerGolden> all = [] {
    std::map<std::string, TokenizerGolden> goldens;
    std::ifstream in(std::string(RONDO_GOLDEN_DIR) + "/tokenizers.txt");
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string name, kind;
      words >> name >> kind;
      const std::string rest = line.substr(name.size() + kind.size() + 2);
      if (kind == "json")
        goldens[name].file = rest;
      else
        goldens[name].cases.push_back(json::parse(rest));
    }
    return goldens;
  }();
  return all;
}

void expect_as_tokenizers(const std::string& name) {
  const TokenizerGolden& golden = tokenizer_goldens().at(name);
  const Tokenizer tokenizer = Tokenizer::from_str(golden.file);
  EXPECT_GE(golden.cases.size(), 25u);
  for (const json& row : golden.cases) {
    const auto text = row[0].get<std::string>();
    const auto ids = row[1].get<Ids>();
    EXPECT_EQ(tokenizer.encode(text), ids) << name << ": " << row[0];
    EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), row[2].get<Ids>())
        << name << ": " << row[0];
    EXPECT_EQ(tokenizer.decode(ids), row[3].get<std::string>()) << name << ": " << row[0];
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = false}), row[4].get<std::string>())
        << name << ": " << row[0];
  }
}

TEST(Tokenizer, OfGpt2Agrees) { expect_as_tokenizers("gpt2"); }
TEST(Tokenizer, OfBertAgrees) { expect_as_tokenizers("bert"); }
TEST(Tokenizer, OfBertCasedAgrees) { expect_as_tokenizers("bert_cased"); }
TEST(Tokenizer, OfLlamaAgrees) { expect_as_tokenizers("llama"); }
TEST(Tokenizer, OfLlama3Agrees) { expect_as_tokenizers("llama3"); }
TEST(Tokenizer, OfOtherStepsAgrees) { expect_as_tokenizers("mixed"); }

TEST(Tokenizer, ReadsAFileAndFindsTokens) {
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", tokenizer_goldens().at("bert").file);
  const Tokenizer tokenizer((folder / "tokenizer.json").string());
  EXPECT_EQ(tokenizer.vocab_size(), 238);
  EXPECT_EQ(tokenizer.token_to_id("[CLS]"), 2);
  EXPECT_EQ(tokenizer.id_to_token(2), "[CLS]");
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
}

TEST(Tokenizer, LongTextsTakeLittleTime) {
  const Tokenizer tokenizer = Tokenizer::from_str(tokenizer_goldens().at("llama").file);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "the dog jumps ";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

std::string changed(const std::string& name, const json& patch) {
  json file = json::parse(tokenizer_goldens().at(name).file);
  file.merge_patch(patch);
  return file.dump();
}

/// As Oniguruma, Hugging Face's library, does it.
TEST(Tokenizer, LinesAndMarks) {
  const auto with = [](const json& change) { return Tokenizer::from_str(changed("gpt2", change)); };
  const auto pieces = [&](const json& pattern) {
    const json split = {{"type", "Split"}, {"pattern", pattern}, {"behavior", "Removed"}};
    const json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    return with({{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, level}}}}});
  };
  const auto text_without = [&](const json& pattern, const std::string& text) {
    const Tokenizer tokenizer = pieces(pattern);
    return tokenizer.decode(tokenizer.encode(text));
  };
  EXPECT_EQ(text_without({{"Regex", "^b"}}, "a\nba"), "a\na");  // ^ is the start of each line
  EXPECT_EQ(text_without({{"Regex", "."}}, "ab\r\nb"), "\n");   // . is all except \n
  EXPECT_EQ(text_without({{"String", "\\s.\\E"}}, "a\\s.\\Eb c"), "ab c");
  const Tokenizer bare = with({{"normalizer", {{"type", "StripAccents"}}}});
  EXPECT_EQ(bare.decode(bare.encode("a\u093eb\u0301")), "ab");
}

TEST(TokenizerErrors, NameTheFault) {
  const auto read = [](const std::string& json) { return Tokenizer::from_str(json, "t.json"); };
  EXPECT_ERROR(Tokenizer("no/such/file"), IoError, "no/such/file");
  EXPECT_ERROR(read("{"), IoError, "t.json: not a tokenizer.json");
  EXPECT_ERROR(read("[]"), IoError, "t.json: the file is not an object");
  EXPECT_ERROR(read("{}"), IoError, "t.json: the file has no field model");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"vocab", nullptr}}}})), IoError,
               "t.json: the model has no field vocab");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"merges", nullptr}}}})), IoError,
               "t.json: the model has no field merges");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"merges", {"a zzz"}}}}})), IoError,
               "merge 0 (a zzz) has a token that is not in the vocab");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"merges", {"ab"}}}}})), IoError,
               "the merge \"ab\" is not two tokens");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"vocab", {{"a", -1}}}}}})), IoError,
               "the id -1 of the token a is not from 0");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"vocab", {{"a", 1e66}}}}}})), IoError,
               "t.json: the id of the token a is 1e+66, not an integer");
  EXPECT_ERROR(read(changed("bert", {{"model", {{"max_input_chars_per_word", 1e66}}}})), IoError,
               "t.json: the max_input_chars_per_word is 1e+66, not an integer");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"vocab", {{"a", "b"}}}}}})), IoError,
               "t.json: the id of the token a is \"b\", not an integer");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"vocab", {{"a", std::uint64_t{1} << 63}}}}}})),
               IoError, "t.json: the id of the token a is 9223372036854775808, which is too large");
  EXPECT_ERROR(read(changed("bert", {{"model", {{"unk_token", "?!"}}}})), IoError,
               "the model's unk_token ?! is not in its vocab");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"type", "Unigram"}}}})), IoError,
               "rondo does not have the model Unigram");
  EXPECT_ERROR(read(changed("gpt2", {{"model", {{"dropout", 0.1}}}})), IoError,
               "rondo does not have the model BPE with dropout");
  EXPECT_ERROR(
      read(changed(
          "llama3",
          {{"pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}}})),
      IoError, "t.json: ICU cannot read the regular expression (");
  for (const char* step : {"normalizer", "pre_tokenizer", "post_processor", "decoder"})
    EXPECT_ERROR(read(changed("gpt2", {{step, {{"type", "Strange"}}}})), IoError,
                 concat("t.json: rondo does not have the ", step, " Strange"));
}

TEST(TokenizerErrors, NameBytesAndIds) {
  const Tokenizer tokenizer = Tokenizer::from_str(tokenizer_goldens().at("gpt2").file);
  for (const char* text : {"ab\xff", "ab\xc3", "ab\xed\xa0\x80", "ab\xc0\x80"})
    EXPECT_ERROR(tokenizer.encode(text), Error, "Tokenizer: the text is not UTF-8 at byte 2");
  EXPECT_ERROR(tokenizer.decode(Ids{1, 5000}), Error, "Tokenizer: no token has the id 5000");
}

TEST(TokenizerErrors, RegularExpressionsEnd) {
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", "(x+x+)+y"}}}, {"behavior", "Isolated"}};
  const auto tokenizer = Tokenizer::from_str(changed("llama3", {{"pre_tokenizer", split}}));
  EXPECT_ERROR(tokenizer.encode(std::string(100, 'x')), Error,
               "ICU cannot split a text of 100 bytes by the regular expression");
}

TEST(TokenizerErrors, SequencesAreNotNestedDeeply) {
  json step = nullptr;
  for (int i = 0; i < 20; ++i) step = {{"type", "Sequence"}, {"normalizers", {step}}};
  EXPECT_ERROR(Tokenizer::from_str(changed("gpt2", {{"normalizer", step}})), IoError,
               "more than 8 deep");
}

}  // namespace
}  // namespace rondo::test
