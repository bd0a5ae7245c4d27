#pragma once
// What the ranks of a GPU's collective tell each other on the host, to make sure that they mean the
// same (dist/collectives/compared.cpp). Private to dist.

#include <algorithm>
#include <vector>

#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/checked.h"
#include "tensor/tensor.h"

namespace rondo::dist {

class Communicator;

/// Of an undefined tensor nothing.
inline Contents contents_of(const Tensor& x) {
  Contents contents;
  if (!x.defined()) return contents;
  contents.dtype = static_cast<std::int64_t>(x.dtype());
  contents.dims = x.dim();
  std::ranges::copy(x.shape(), contents.sizes);
  return contents;
}

/// From one rank to another. Sent as it is.
struct Meant {
  Signature signature;    // what it calls
  Contents sent, wanted;  // to and from the other, where the collective is an exchange
  enum Where : std::int64_t { nowhere, cpu, gpu } where = nowhere;  // its tensors
};

/// What all ranks mean, each as this rank heard it.
struct AllMeant {
  std::vector<Meant> mine, theirs;  // to and from each rank
  bool is_on(Meant::Where where) const {
    return std::ranges::any_of(theirs, [&](const Meant& m) { return m.where == where; });
  }
  /// Throws CommError, the same on all ranks unless it is about what two of them exchange.
  void check(const Communicator& comm) const;
};

}  // namespace rondo::dist
