// SHA-256 against FIPS 180-4's examples; what param_hash depends on, and what not.

#include "io/hash.h"

#include <gtest/gtest.h>

#include "autograd/ops/shape.h"
#include "support/hashed.h"

namespace rondo {
namespace {

using io::param_hash;
using io::Sha256;

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

TEST(Sha256, StandardExamples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 parts;
  for (int i = 0; i < 1000; ++i) parts.update(std::string(1000, 'a'));
  EXPECT_EQ(parts.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(ParamHash, IsTheHashOfTheDocumentedBytes) {
  std::string bytes("w\0f32\0", 6);
  auto append = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (std::int64_t n : {2, 1, 2}) append(n);
  for (float x : {1.0f, -2.5f}) append(x);
  EXPECT_EQ(param_hash({{"w", tensor<float>({1.0f, -2.5f}, {1, 2})}}), sha256(bytes));
}

TEST(ParamHash, SeesEveryChangeButLayout) {
  Tensor x = test::hashed_tensor(1, 1, {2, 3, 4, 5}), y = ones({3});
  std::string hash = param_hash({{"x", x}, {"y", y}});
  EXPECT_EQ(param_hash({{"x", x.contiguous(MemoryFormat::channels_last)}, {"y", y}}), hash);
  EXPECT_NE(param_hash({{"y", y}, {"x", x}}), hash);
  EXPECT_NE(param_hash({{"x", x}, {"z", y}}), hash);
  EXPECT_NE(param_hash({{"x", x}}), hash);
  EXPECT_NE(param_hash({{"x", x.reshape({3, 2, 4, 5})}, {"y", y}}), hash);
  EXPECT_NE(param_hash({{"x", x}, {"y", ones({3}, {.dtype = i32})}}), hash);
  Tensor changed = x.clone();
  changed.data_ptr<float>()[119] += 1e-6f;
  EXPECT_NE(param_hash({{"x", changed}, {"y", y}}), hash);
}

}  // namespace
}  // namespace rondo
