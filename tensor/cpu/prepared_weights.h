#pragma once
// Weights in the form in which a kernel reads them, kept between calls.
//
// Note [Prepared weights]
// Kernels need weights in blocks, in panels, or transformed (winograd.h). In training the weights
// change in each step, and converting them each time costs a percent or two of the work. In
// inference, especially of a single image, the conversion costs more than the convolution itself.
// So the converted weights are attached to the tensor's storage and reused until the storage is
// written. The storage counts writes through all of its tensors (Storage::writes). The first two
// uses after a write keep nothing: a training step, even with a checkpoint's second forward, would
// otherwise fill memory with data that is never read again. Code that writes to weights through
// data_ptr() must call bump_version(), as the tape requires anyway.
//
// Temporary weights are never kept: weights that are not dense, that autocast casts, that are
// converted to f32 from another type, or whose narrow groups are joined.

#include <functional>

#include "tensor/cpu/onednn.h"

namespace rondo::cpu {

/// Distinguishes the prepared forms of one weight.
struct WeightForm {
  enum class Kind { layout, winograd, winograd_turned, winograd_small, panels, taps, taps_turned };
  Kind kind = Kind::layout;
  dnnl::memory::desc layout = {};  // oneDNN's, for Kind::layout
  std::int64_t groups = 1;         // those of the convolution, for Winograd's kinds
  bool operator==(const WeightForm& other) const {
    return kind == other.kind && groups == other.groups &&
           (kind != Kind::layout || layout == other.layout);
  }
};

/// `bytes` bytes that make(data) filled from w, now or in an earlier call. Thread-safe.
StoragePtr prepared_weight(const Tensor& w, const WeightForm& form, std::size_t bytes,
                           const std::function<void(void*)>& make);

}  // namespace rondo::cpu
