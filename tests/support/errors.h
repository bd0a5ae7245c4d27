#pragma once
// Checks that something throws the expected message: an error is part of the interface.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tensor/error.h"

/// Fails unless `statement` throws an Error of this type whose message contains `text`. (gmock's
/// ThrowsMessage instantiates templates for each statement: half of a test's compile time.)
#define EXPECT_ERROR(statement, Kind, text)                              \
  switch (0)                                                             \
  case 0:                                                                \
  default:                                                               \
    if (const auto result = [&]() -> ::testing::AssertionResult {        \
          try {                                                          \
            (void)(statement);                                           \
          } catch (const ::rondo::Kind& error) {                         \
            return ::rondo::test::says(error.what(), text);              \
          }                                                              \
          return ::testing::AssertionFailure() << "it throws no " #Kind; \
        }();                                                             \
        result)                                                          \
      ;                                                                  \
    else                                                                 \
      ADD_FAILURE() << #statement << ": " << result.message()

namespace rondo::test {

/// Fails unless `message` contains `text`.
::testing::AssertionResult says(std::string_view message, std::string_view text);

/// The message of the E that `action` throws; "" if it throws nothing.
template <class E = Error, class F>
std::string message_of(F&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace rondo::test
