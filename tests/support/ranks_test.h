#pragma once
// Tests on one to five ranks that are threads, which communicate by messages or through memory.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>

#include "support/ranks.h"

namespace rondo::test {

class RanksTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  void on_ranks(const std::function<void(std::shared_ptr<dist::Communicator>)>& f,
                dist::CommunicatorOptions options = {.timeout = std::chrono::seconds(60)}) const {
    auto run = std::get<1>(GetParam()) ? on_ranks_sharing_memory : test::on_ranks;
    run(ranks(), f, options);
  }
};

inline auto few_ranks() {
  return ::testing::Combine(::testing::Values(1, 2, 3, 4, 5), ::testing::Bool());
}

inline std::string ranks_name(const ::testing::TestParamInfo<RanksTest::ParamType>& info) {
  return std::to_string(std::get<0>(info.param)) +
         (std::get<1>(info.param) ? "InMemory" : "ByMessages");
}

}  // namespace rondo::test
