#pragma once
// Replicas: a copy of a model that uses other tensors instead of its own. Several replicas can be
// computed concurrently.

#include "nn/module.h"

namespace rondo::dist {

/// The parameters and buffers of a module, each once.
struct ModuleTensors {
  Tensors parameters, buffers;
};
ModuleTensors members_of(nn::Module& module);

/// Gives `replica`, a copy of `module` that shares its tensors, replicas.parameters[i] instead of
/// members.parameters[i], and likewise for buffers. Shared tensors stay shared. `members` must be
/// members_of(module).
void replace_members(const nn::Module& module, nn::Module& replica, const ModuleTensors& members,
                     const ModuleTensors& replicas);
/// A copy of `module` with these members.
template <class M>
M replica_of(const M& module, const ModuleTensors& members, const ModuleTensors& replicas) {
  M replica = module;
  replace_members(module, replica, members, replicas);
  return replica;
}

}  // namespace rondo::dist
