// Text for terminals: control sequences are escaped, ordinary text is unchanged.

#include "tensor/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace rondo {
namespace {

TEST(Printable, KeepsWhatPeopleWrite) {
  for (const char* text :
       {"", "layer1.0.conv1.weight", "caf\xc3\xa9", "\xe2\x82\xac 5", "\xf0\x9f\x8e\x89",
        "\xe6\x9d\xb1\xe4\xba\xac", "a\\b", "\xc2\xa0", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatTerminalsObey) {
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\nb\rc\td\be\x7f"), "a\\nb\\rc\\td\\x08e\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // C1: another way to start a control sequence
  EXPECT_EQ(printable("gpj\xe2\x80\xae.exe"), "gpj\\u202e.exe");
  EXPECT_EQ(printable("\xe2\x81\xa6\xd8\x9c\xe2\x80\x8f\xe2\x80\xa8"),
            "\\u2066\\u061c\\u200f\\u2028");
  EXPECT_EQ(printable("first\nsecond\x1b\ttext", "\n"), "first\nsecond\\x1b\\ttext");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");  // truncated
  EXPECT_EQ(printable("\xc1\x9b"), "\\xc1\\x9b");  // longer than necessary
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a surrogate pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(printable("\xe2(\xa1"), "\\xe2(\\xa1");
}

TEST(ShellWord, IsOneWordForAShell) {
  EXPECT_EQ(shell_word("/home/me/runs-2_a.json"), "/home/me/runs-2_a.json");
  EXPECT_EQ(shell_word("my runs"), "'my runs'");
  EXPECT_EQ(shell_word("$HOME;it's"), "'$HOME;it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace rondo
