#pragma once
// Views: how the tape follows tensors that share another tensor's elements.
//
// Note [Views follow their base]
// The tape records tensors, not memory: an in-place op becomes the grad_fn of the tensor it is
// called on. A view and its base share elements, so a write must change the tape of both:
//
//   Tensor rows = zeros({3, 4});
//   rows[0].copy_(f(w));             // rows requires a gradient from here on
//   rows.mul_(2.0);
//   rows[0].sum().backward();        // w.grad is that of 2 f(w)
//
// Each view knows its base (the tensor at the start of a chain of views) and the version (Note
// [Versions] in saved_tensor.h) at which its own place on the tape was valid.
//
//   A recorded write through a view puts a node behind the base: attach_write.
//   A view's place is old if its memory was written after the view got the place, or if its base
//   came onto the tape after the view was taken. When an op uses such a view, the view gets a new
//   place, a region of the base: renew_place.
//
// PyTorch does the same (CopySlices and AsStridedBackward). Two kinds of views have no base and do
// not follow it. detach() cuts a tensor off on purpose. A view that is taken under NoGradGuard is a
// constant; writing to it throws if the tape would have to record the write, because the operand or
// the base requires a gradient.

#include <memory>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

/// Whether x itself, apart from its base, has a place on the tape.
bool is_on_tape(const TensorImpl& x);
/// Records that `view` shares elements of x, or of x's base.
void set_base(const Tensor& view, const Tensor& x);
/// The result of an op counts as a tensor of its own, even if the op made it as a view.
inline void forget_base(const Tensor& y) {
  y.impl().base = nullptr;
  y.impl().is_constant_view = false;
}
/// Calls forget_base(x) if x is a view and nothing else uses its memory, apart from its base, which
/// nobody else has. Ops that end with a reshape return such tensors. For ops that write to x.
void forget_hidden_base(const Tensor& x);
/// Whether x is a view whose base is on the tape and whose own place on the tape is old.
bool has_old_place(const Tensor& x);
/// Throws AutogradError if the view x cannot follow its base: set_data gave the base other memory,
/// or several elements of the base share one address.
void require_base(const Tensor& x);
/// Gives a view with an old place a new one. Throws AutogradError as require_base does, and if x is
/// a leaf. Two threads must not use the same such view at the same time.
void renew_place(const Tensor& x);
/// Puts `write` behind x's base. An in-place op made `write` for the view x and linked it to its
/// inputs.
void attach_write(const std::shared_ptr<Node>& write, const Tensor& x);

}  // namespace rondo
