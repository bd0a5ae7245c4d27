#pragma once
// Hashes: SHA-256 (FIPS 180-4, OpenSSL's), to tell whether two models, or two copies of a file, are
// the same bit for bit.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "nn/module.h"
#include "tensor/tensor.h"

namespace rondo::io {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(const void* data, std::size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// The hash as 64 lower-case hexadecimal digits; call once, at the end.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// Hash of all parameters and buffers in state-dict order: for each the name, a zero byte, the
/// dtype's name, a zero byte, the rank and sizes as little-endian 64-bit integers, and the elements
/// in row-major order. Equal on all ranks of a healthy run; independent of strides.
std::string param_hash(const nn::StateDict& state);

/// x's elements on the CPU, dense and in row-major order: x itself where it already is so.
Tensor row_major(const Tensor& x);

}  // namespace rondo::io
