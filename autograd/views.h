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
//   A recorded write through a view puts a node behind the base: attach_write.
//   A view has an old place when its memory was written after it got the place, or when its base
//   came onto the tape after the view was taken. When an op uses such a view, it gets a new place,
//   a region of the base: renew_place.
//
// PyTorch does the same (CopySlices and AsStridedBackward). Two kinds of views have no base and do
// not follow. detach() cuts a tensor off on purpose. A view that is taken under NoGradGuard is a
// constant; a write to it that the tape ought to know of, for the operand's or the base's sake, is
// an error.

#include <memory>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

/// Whether x, for itself, has a place on the tape.
bool is_on_tape(const TensorImpl& x);
/// Notes that `view` shows elements of x, or of x's base.
void set_base(const Tensor& view, const Tensor& x);
/// What an op returns stands for itself, even where it was made as a view inside the op.
inline void forget_base(const Tensor& y) {
  y.impl().base = nullptr;
  y.impl().is_constant_view = false;
}
/// Whether x is a view whose base is on the tape, and whose own place there is no longer right.
bool has_old_place(const Tensor& x);
/// Throws AutogradError where the view x cannot follow its base: the base has other memory by now
/// (set_data), or several of its elements lie at one address.
void require_base(const Tensor& x);
/// Gives a view with an old place a new one. Throws AutogradError as require_base does, and for a
/// leaf. Two threads must not use the same such view at once.
void renew_place(const Tensor& x);
/// Puts `write`, which an in-place op made for the view x and linked to its inputs, behind x's
/// base.
void attach_write(const std::shared_ptr<Node>& write, const Tensor& x);

}  // namespace rondo
