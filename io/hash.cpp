#include "io/hash.h"

#include <openssl/evp.h>

#include <bit>
#include <vector>

#include "autograd/grad_mode.h"
#include "tensor/backend.h"

namespace rondo::io {

static_assert(std::endian::native == std::endian::little, "rondo's files are little-endian");

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(context_->evp && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1,
          "SHA-256: this OpenSSL does not support it");
}
Sha256::~Sha256() = default;

void Sha256::update(const void* data, std::size_t bytes) {
  require(EVP_DigestUpdate(context_->evp, data, bytes) == 1, "SHA-256: OpenSSL failed");
}

std::string Sha256::hex() {
  unsigned char digest[32];
  require(EVP_DigestFinal_ex(context_->evp, digest, nullptr) == 1, "SHA-256: OpenSSL failed");
  std::string text;
  for (unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Tensor row_major(const Tensor& x) {
  Tensor y = x;
  if (!x.device().is_cpu()) {
    NoGradGuard no_grad;
    y = x.to(Device::cpu());
  }
  if (y.is_contiguous()) return y;
  Tensor dense = Tensor::empty(y.shape(), {.dtype = y.dtype()});
  backend(dense).copy(y, dense);
  return dense;
}

std::string param_hash(const nn::StateDict& state) {
  Sha256 hash;
  for (const auto& [name, tensor] : state) {
    hash.update(name);
    hash.update("\0", 1);
    hash.update(name_of(tensor.dtype()));
    hash.update("\0", 1);
    std::vector<std::int64_t> sizes{tensor.dim()};
    sizes.insert(sizes.end(), tensor.shape().begin(), tensor.shape().end());
    hash.update(sizes.data(), sizes.size() * sizeof(std::int64_t));
    Tensor dense = row_major(tensor);
    hash.update(dense.data_ptr(), static_cast<std::size_t>(dense.nbytes()));
  }
  return hash.hex();
}

}  // namespace rondo::io
