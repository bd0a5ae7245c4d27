#pragma once
// What the ranks of a GPU collective tell each other on the host, to verify that they all call the
// same collective (dist/collectives/compared.cpp). Private to dist.

#include <algorithm>
#include <vector>

#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/checked.h"
#include "tensor/tensor.h"

namespace rondo::dist {

class Communicator;

/// The contents of an undefined tensor are empty.
inline Contents contents_of(const Tensor& x) {
  Contents contents;
  if (!x.defined()) return contents;
  contents.dtype = static_cast<std::int64_t>(x.dtype());
  contents.dims = x.dim();
  std::ranges::copy(x.shape(), contents.sizes);
  return contents;
}

/// What one rank tells another. Sent as raw bytes.
struct CallSummary {
  Signature signature;    // of the collective that it calls
  Contents sent, wanted;  // to and from the other rank, if the collective is an exchange
  enum Where : std::int64_t { nowhere, cpu, gpu } where = nowhere;  // of its tensors
};

/// What all ranks have told each other, as this rank knows it.
struct AllCallSummaries {
  std::vector<CallSummary> mine, theirs;  // to and from each rank
  bool is_on(CallSummary::Where where) const {
    return std::ranges::any_of(theirs, [&](const CallSummary& m) { return m.where == where; });
  }
  /// Throws CommError if the ranks differ. The error is the same on all ranks, unless it is about
  /// the tensors that two of them exchange.
  void check(const Communicator& comm) const;
};

}  // namespace rondo::dist
