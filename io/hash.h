#pragma once
// SHA-256 hashes (FIPS 180-4, computed by OpenSSL), which tell whether two models or two copies of
// a file are bit-identical.

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
  /// The hash as 64 lower-case hexadecimal digits. Call it once, at the end.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// Hash of all parameters and buffers in state-dict order. For each: the name, a zero byte, the
/// name of the dtype, a zero byte, the rank and the sizes as little-endian 64-bit integers, and the
/// elements in row-major order. Equal on all ranks of a healthy run; independent of strides.
std::string param_hash(const nn::StateDict& state);

/// The elements of x on the CPU, contiguous in row-major order; x itself if it is already so.
Tensor row_major(const Tensor& x);

}  // namespace rondo::io
