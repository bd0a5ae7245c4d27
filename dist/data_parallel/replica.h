#pragma once
// Replicas: a model once more, with other tensors in the place of its own. Several can then be
// computed side by side.

#include "nn/module.h"

namespace rondo::dist {

/// The parameters and buffers of a module, each once.
struct Members {
  Tensors parameters, buffers;
};
Members members_of(nn::Module& module);

/// A copy of `module` with replicas.parameters[i] where members.parameters[i] is, and likewise for
/// buffers; what is shared stays shared. `members` are the module's own.
nn::AnyModule replica_of(const nn::AnyModule& module, const Members& members,
                         const Members& replicas);

}  // namespace rondo::dist
