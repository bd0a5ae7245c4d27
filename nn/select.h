#pragma once
// Parameters by name: to freeze some, or to train some with settings of their own.
//
//   nn::freeze(net, "layer[12].*");
//   optim::SGD sgd({{nn::parameters_like(net, "fc.*"), {.lr = 0.1}},
//                   {nn::parameters_unlike(net, "fc.*"), {.lr = 0.01}}});
//
// A pattern is a shell's (fnmatch): * stands for any characters, ? for one, [12] for one of these.

#include <string>

#include "nn/module.h"

namespace rondo::nn {

bool matches(const std::string& name, const std::string& pattern);

/// The parameters that require a gradient and whose names match; those whose names do not. Each
/// throws Error where there are none.
Tensors parameters_like(Module& module, const std::string& pattern);
Tensors parameters_unlike(Module& module, const std::string& pattern);

/// Stops training of the parameters whose names match, or resumes it; returns how many there are.
/// Throws Error, naming the pattern and a few names, where there is none. A frozen batch norm still
/// follows the statistics of what it sees, unless it is put into eval mode.
std::int64_t freeze(Module& module, const std::string& pattern);
std::int64_t unfreeze(Module& module, const std::string& pattern);

}  // namespace rondo::nn
