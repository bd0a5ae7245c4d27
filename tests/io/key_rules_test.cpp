#include "io/key_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/support.h"

namespace rondo::io {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

nn::StateDict named(const std::vector<std::string>& names) {
  nn::StateDict state;
  for (const std::string& name : names) state.push_back({name, ones({1})});
  return state;
}

std::vector<std::string> names_of(const nn::StateDict& state) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& entry : state) names.push_back(entry.name);
  return names;
}

TEST(KeyRules, RenameInOrderAndThenIgnore) {
  const nn::StateDict state =
      named({"module.linear.weight", "module.linear.bias", "module.a.module.b"});
  const nn::StateDict result = apply(
      {.rename = {{"^module\\.", ""}, {"^linear\\.(.*)$", "fc.$1"}}, .ignore = {"^fc\\.bias$"}},
      state);
  EXPECT_THAT(names_of(result), ElementsAre("fc.weight", "a.module.b"));
  EXPECT_TRUE(result[0].tensor.is_same(state[0].tensor));
  EXPECT_EQ(names_of(apply({}, state)), names_of(state));
}

TEST(KeyRules, RefuseWhatCannotBeMeant) {
  EXPECT_EQ(message_of<Error>([] {
              apply({.rename = {{"^a|b$", "c"}}}, named({"a", "b"}));
            }),
            "the rules for keys make \"c\" of both \"a\" and \"b\"");
  EXPECT_THAT(message_of<Error>([] { apply({.ignore = {"("}}, {}); }),
              HasSubstr("the rule \"(\" for keys is not a regular expression: "));
  // std::regex recurses for each character, so a long name in a file could overflow the stack.
  const std::string longest(max_ruled_key, 'a');
  EXPECT_EQ(names_of(apply({.rename = {{"^(.*)b?$", "$1"}}}, named({longest})))[0], longest);
  EXPECT_THAT(message_of<IoError>(
                  [&] { apply({.ignore = {"^(.*)b$"}}, named({std::string(1 << 20, 'a')})); }),
              HasSubstr("a key of 1048576 bytes, and rules are for keys of 2048 at most"));
  EXPECT_THAT(message_of<IoError>([&] {
                apply({.rename = {{"^(.*)$", "$1$1"}}}, named({longest}));
              }),
              HasSubstr("a key of 4096 bytes"));
  EXPECT_EQ(names_of(apply({}, named({longest + "a"})))[0], longest + "a");
}

}  // namespace
}  // namespace rondo::io
