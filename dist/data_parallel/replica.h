#pragma once
// Replicas: a copy of a model that uses other tensors instead of its own. Several replicas can be
// computed concurrently.

#include "nn/module.h"

namespace rondo::dist {

/// The parameters and buffers of a module, each once.
struct Members {
  Tensors parameters, buffers;
};
Members members_of(nn::Module& module);

/// A copy of `module` with replicas.parameters[i] instead of members.parameters[i], and likewise
/// for buffers. Shared tensors stay shared. `members` must be members_of(module).
nn::AnyModule replica_of(const nn::AnyModule& module, const Members& members,
                         const Members& replicas);

}  // namespace rondo::dist
