#pragma once
// Weights in the form in which a kernel reads them, kept from call to call.
//
// Note [Prepared weights]
// Kernels want weights in blocks, in panels, or transformed (winograd.h). In training they change
// with each step and are brought into that form each time, a per-cent or two of the work. In
// inference, above all of a single image, doing so costs more than the convolution itself. So what
// was made of a tensor hangs on its storage, and is found again until something is written there:
// the storage counts writes (Storage::writes), whichever of its tensors they went through. Nothing
// is kept at the first two uses after a write: a step of training, with a checkpoint's second run
// too, would fill memory with what it never reads again. Who writes to weights through data_ptr()
// must call bump_version(), as for the tape's sake.
//
// What is a temporary each time is never kept: weights that are not dense, that autocast casts, or
// that are computed in f32 on behalf of another type.

#include <functional>

#include "tensor/cpu/onednn.h"

namespace rondo::cpu {

/// What tells apart the forms of one weight.
struct WeightForm {
  enum class Kind { layout, winograd, winograd_turned, winograd_small, panels, taps, taps_turned };
  Kind kind = Kind::layout;
  dnnl::memory::desc layout = {};  // oneDNN's, for Kind::layout
  bool operator==(const WeightForm& other) const {
    return kind == other.kind && (kind != Kind::layout || layout == other.layout);
  }
};

/// `bytes` bytes that make(data) has filled from w, now or earlier. Thread-safe.
StoragePtr prepared_weight(const Tensor& w, const WeightForm& form, std::size_t bytes,
                           const std::function<void(void*)>& make);

}  // namespace rondo::cpu
