#pragma once
// That something throws, and says what it should: an error is part of the interface.

#include <gmock/gmock.h>

/// Fails unless `statement` throws an Error of this very kind whose sentence contains `text`.
#define EXPECT_ERROR(statement, Kind, text) \
  EXPECT_THAT([&] { (void)(statement); },   \
              ::testing::ThrowsMessage<::rondo::Kind>(::testing::HasSubstr(text)))
