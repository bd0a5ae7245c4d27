#pragma once
// That something throws, and says what it should: an error is part of the interface.

#include <gmock/gmock.h>

#include <string>

#include "tensor/error.h"

/// Fails unless `statement` throws an Error of this very kind whose sentence contains `text`.
#define EXPECT_ERROR(statement, Kind, text) \
  EXPECT_THAT([&] { (void)(statement); },   \
              ::testing::ThrowsMessage<::rondo::Kind>(::testing::HasSubstr(text)))

namespace rondo::test {

/// The sentence of the E that `action` throws; "" when it throws nothing.
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
