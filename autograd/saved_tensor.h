#pragma once
// SavedTensor: a tensor that backward will need, kept without a memory leak and checked for later
// writes.
//
// Note [Versions]
// An in-place op increments the version counter that all views of a storage share. A SavedTensor
// remembers the version at which it was saved. `get` throws if the version has changed, because the
// gradient would be computed from the wrong values. This is also a reason to save as little as
// possible.
//
// Note [Saving an output]
// A node that saves its own output would own a tensor whose grad_fn is that node: a cycle that is
// never freed. SavedTensor::output therefore keeps only the elements, and `get` restores the
// tensor's place on the tape.

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

  /// The tensor as it was saved; undefined if it was undefined then. Throws AutogradError, naming
  /// `owner`, shape and versions, if it was modified since or if the graph was freed.
  Tensor get(Node& owner) const;
  /// Its elements, without a place on the tape. Throws the same errors.
  Tensor elements(const char* owner) const;
  void reset() {
    tensor_ = {};
    entry_.drop();
  }

 private:
  void save(const Tensor& x);

  Tensor tensor_;
  std::uint64_t version_ = 0;
  CheckpointEntry entry_;  // instead of tensor_ and version_, if a checkpoint will recompute it
  Edge edge_;              // its place on the tape, unless tensor_ is a leaf, which has it
  bool was_defined_ = false;
  bool is_output_ = false;
  int index_ = 0;
};

}  // namespace rondo
