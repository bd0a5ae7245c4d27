// SharedLibrary: libraries and functions that are missing are named.

#include "tensor/cuda/shared_library.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/errors.h"

namespace rondo::test {
namespace {

TEST(SharedLibrary, WhatIsMissingIsNamed) {
  EXPECT_ERROR(
      cuda::SharedLibrary("cuNothing", {"libcunothing.so.7", "libcunothing.so.6"}), CudaError,
      "cuNothing is required, but libcunothing.so.7 or libcunothing.so.6 was not found where "
      "the system");
  const cuda::SharedLibrary c("C", {"libc.so.6"});
  decltype(std::strlen)* function = nullptr;
  c.load("strlen", function);
  EXPECT_EQ(function("four"), 4u);
  EXPECT_ERROR(c.load("no_such_function", function), CudaError,
               "libc.so.6 has no no_such_function: this C is too old");
}

}  // namespace
}  // namespace rondo::test
