#include "support/select_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace rondo::test {

bool select_file(int argc, char** argv) {
  // On a GPU the tests compare f32 results with the CPU's, within f32's rounding errors.
  setenv("RONDO_TF32", "0", 0);
  constexpr std::string_view flag = "--file=";
  if (argc < 2) return true;
  if (argc > 2 || !std::string_view(argv[1]).starts_with(flag)) {
    std::fprintf(stderr, "unknown argument %s: expected --file=NAME or a flag of GoogleTest\n",
                 argv[argc > 2 && std::string_view(argv[1]).starts_with(flag) ? 2 : 1]);
    return false;
  }
  const std::string name = argv[1] + flag.size();

  const std::string ending = "tests/" + name + "_test.cpp";
  std::string mine, others;  // patterns of test names
  const auto& unit = *testing::UnitTest::GetInstance();
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const auto& suite = *unit.GetTestSuite(s);
    std::string names[2];
    int counts[2] = {0, 0};
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& info = *suite.GetTestInfo(t);
      const bool is_mine = std::string_view(info.file()).ends_with(ending);
      names[is_mine] += std::string(":") + suite.name() + "." + info.name();
      ++counts[is_mine];
    }
    for (int is_mine : {0, 1})  // most suites are in a single file
      if (counts[is_mine] == suite.total_test_count())
        names[is_mine] = std::string(":") + suite.name() + ".*";
    others += names[0];
    mine += names[1];
  }
  if (mine.empty()) {
    std::fprintf(stderr, "--file=%s: this program has no test of tests/%s_test.cpp\n", name.c_str(),
                 name.c_str());
    return false;
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  if (filter == "*") {
    filter = mine.substr(1);
  } else if (!others.empty()) {  // the caller's selection, without the other files
    const bool excludes = filter.find('-') != std::string::npos;
    filter += excludes ? others : "-" + others.substr(1);
  }
  return true;
}

}  // namespace rondo::test
