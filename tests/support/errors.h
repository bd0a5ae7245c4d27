#pragma once
// Checks that something throws the expected message: an error is part of the interface.

#include <gmock/gmock.h>

#include <string>

#include "tensor/error.h"

/// Fails unless `statement` throws an Error of exactly this type whose message contains `text`.
#define EXPECT_ERROR(statement, Kind, text) \
  EXPECT_THAT([&] { (void)(statement); },   \
              ::testing::ThrowsMessage<::rondo::Kind>(::testing::HasSubstr(text)))

namespace rondo::test {

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
