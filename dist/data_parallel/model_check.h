#pragma once
// Ensures that all ranks have the same model before a wrapper (DDP, ReproducibleDataParallel,
// ParameterAverager) is made, and that it is still the same model later.

#include <string>
#include <utility>
#include <vector>

#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::dist {

/// Compares names, dtypes, shapes and strides of all parameters and buffers with rank 0's. If they
/// differ, all ranks throw CommError with the same sentence, which names a rank and the first
/// parameter that differs.
void check_same_model(nn::Module& model, Communicator& comm);

/// Gives every rank rank 0's parameters and buffers.
void broadcast_model(nn::Module& model, Communicator& comm);

/// The parameters, and buffers if the wrapper averages them, that a model had when its wrapper was
/// made. The wrapper averages no others.
class KnownParameters {
 public:
  /// `wrapper` is the name of the wrapper's class, for the error.
  KnownParameters(nn::Module& model, std::string wrapper, bool with_buffers = false);
  /// Throws CommError "rank 1: fc.weight has been added or replaced since …" if one has
  /// been added, replaced or removed.
  void check_same(int rank) const;
  /// The same if a parameter was frozen or unfrozen.
  void check_trained(int rank) const;

 private:
  std::vector<nn::NamedTensor> now() const;
  void require_same(bool same, int rank, const std::string& name, const char* what) const;

  nn::Module& model_;
  std::string wrapper_;
  bool with_buffers_;
  std::vector<std::pair<nn::NamedTensor, bool>> at_first_;  // each with its requires_grad
};

}  // namespace rondo::dist
