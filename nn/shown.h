#pragma once
// Finds layers that a `visit` leaves out, by their gradients.
//
// Note [Leaves that no visit shows]
// A layer that its owner's `visit` leaves out runs like any other, but it is neither trained nor
// saved. Only its gradient can reveal it. The optimizer's step and DDP's backward throw if a leaf
//
// - got a gradient in a backward on this thread since the last step, and still has it,
// - was used by an op while a module ran, and was neither an input of the outermost module (such as
//   a picture whose gradient is wanted) nor a buffer that the outermost module shows,
// - was not made by requires_grad_() while a module ran (a forward may create leaves),
// - and is not `is_shown`: no walk through a model (parameters(), state_dict(), train(), …) has
//   reached it, and no optimizer was given it.
//
// There is one exception: the outermost module itself shows the leaf, but no walk has reached it.
// Then the leaf may be in a model that is not trained, such as a teacher. But it may also be in a
// layer that was left out of a model whose forward is called directly, as models with several
// inputs are: then the layers are outermost. In that case other layers, which a walk has reached as
// parts of a model, run outermost as well, and the exception does not apply.

#include "nn/module.h"

namespace rondo::nn::detail {

/// What Visitor::parameter and Visitor::buffer do to a tensor.
void show_parameter(const Tensor& tensor);
void show_buffer(const Tensor& tensor);

/// Called when an outermost module begins to run. `is_part`: a walk has reached it as a child of
/// another module.
void watch_leaves(bool is_part);

/// Throws Error naming a leaf that the note above describes. The message begins with `who`.
void require_all_shown(const char* who);

}  // namespace rondo::nn::detail
