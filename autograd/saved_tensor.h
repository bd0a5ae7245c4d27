#pragma once
// SavedTensor: a tensor that backward will need, kept so that it is neither leaked nor stale.
//
// Note [Versions]
// An in-place op bumps the version counter that all views of a storage share. A SavedTensor
// remembers the version it saw and `get` throws when it has changed since, because the gradient
// would be computed from the wrong numbers. That is also why an op saves as little as it can.
//
// Note [Saving an output]
// A node that saves its own output would own a tensor whose grad_fn is that node: a cycle, never
// freed. Saved with SavedTensor::output, only the elements are kept, and `get` puts the tape back.

#include <cstdint>
#include <memory>

#include "autograd/checkpoint.h"
#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

class SavedTensor {
 public:
  struct OutputTag {};
  static constexpr OutputTag output{};

  SavedTensor() = default;
  explicit SavedTensor(const Tensor& x);
  SavedTensor(const Tensor& y, OutputTag, int index = 0);

  /// The tensor as it was; undefined if it was undefined when saved. Throws AutogradError naming
  /// `owner`, shape and versions when it was modified or the graph was freed.
  Tensor get(Node& owner) const;
  /// Its elements, without its place on the tape; throws the same.
  Tensor elements(const char* owner) const;
  void reset() {
    tensor_ = {};
    slot_.drop();
  }

 private:
  void save(const Tensor& x);

  Tensor tensor_;
  std::uint64_t version_ = 0;
  CheckpointSlot slot_;  // instead of both, where a checkpoint will compute it again, …
  Edge edge_;            // … and its place on the tape
  bool was_defined_ = false;
  bool is_output_ = false;
  int index_ = 0;
};

}  // namespace rondo
