#pragma once
// What a `visit` leaves out is found by its gradient.
//
// Note [Leaves that no visit shows]
// A layer that its owner's `visit` leaves out runs like any other, but it is neither trained nor
// saved. Only its gradient gives it away. The optimizer's step and DDP's backward throw if a leaf
//
// - got a gradient in a backward on this thread since the last step, and still has it,
// - was used by an op while a module ran, and was not an input of the outermost module (a picture
//   whose gradient is wanted comes from outside) nor a buffer that this one shows,
// - was not made by requires_grad_() while a module ran, as a forward may make some,
// - and is not `is_shown`: no walk through a model (parameters(), state_dict(), train(), …) has
//   reached it, and no optimizer was given it.
//
// There is one exception: the outermost module itself shows the leaf, but no walk has reached it.
// It is in a model that nobody trains, such as a teacher. It may also be in a layer that was left
// out of a model whose forward is called directly, as it is for several inputs: then the layers are
// outermost. In that case other layers, which a walk has reached as parts of a model, run outermost
// as well, and the exception does not hold.

#include "nn/module.h"

namespace rondo::nn::detail {

/// What Visitor::parameter and Visitor::buffer mean for a tensor.
void show_parameter(const Tensor& tensor);
void show_buffer(const Tensor& tensor);

/// A module begins to run that no other one called; `is_part`: a walk has reached it below another.
void watch_leaves(bool is_part);

/// Throws Error naming a leaf of the note above; `who` begins the sentence.
void require_all_shown(const char* who);

}  // namespace rondo::nn::detail
