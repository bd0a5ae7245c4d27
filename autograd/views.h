#pragma once
// Views: how the tape follows tensors that show another tensor's elements.
//
// Note [Views follow their base]
// The tape knows tensors, not memory; an in-place op puts itself behind the tensor it is called on.
// The elements of a view are also its base's, so that a write has to reach the tape of both:
//
//   Tensor rows = zeros({3, 4});
//   rows[0].copy_(f(w));             // rows requires a gradient from here on
//   rows.mul_(2.0);
//   rows[0].sum().backward();        // w.grad is that of 2 f(w)
//
// Each view knows its base, the tensor at the start of a chain of views, and the version (Note
// [Versions] in saved_tensor.h) at which its own place on the tape was right.
//
//   A recorded write through a view      puts a node behind the base: attach_write.
//   A view whose memory was written since it got its place, or whose base requires a gradient only
//   since then,                          gets a new place, behind the base, when an op uses it:
//                                        renew_place.
//
// PyTorch does the same (CopySlices and AsStridedBackward). Two kinds of views do not follow:
// detach() has no base on purpose, and a view taken under NoGradGuard is a constant; writing to it
// or using it after its memory was written, is an error.

#include <memory>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

/// Notes that `view` shows elements of x, or of x's base.
void set_base(const Tensor& view, const Tensor& x);
/// Whether x is a view whose place on the tape is not right anymore, and its base has one.
bool has_old_place(const Tensor& x);
/// Puts x, for which that holds, behind its base. Throws AutogradError for a view taken under
/// NoGradGuard, a view that is a leaf, and one whose base has other memory by now (set_data). Two
/// threads must not use the same such view at once.
void renew_place(const Tensor& x);
/// Puts `write`, which an in-place op made for the view x and linked to its inputs, behind x's
/// base.
void attach_write(const std::shared_ptr<Node>& write, const Tensor& x);

}  // namespace rondo
