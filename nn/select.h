#pragma once
// Parameters selected by name: to freeze some, or to train some with their own settings.
//
//   nn::freeze(net, "layer[12].*");
//   optim::SGD sgd({{nn::parameters_like(net, "fc.*"), {.lr = 0.1}},
//                   {nn::parameters_unlike(net, "fc.*"), {.lr = 0.01}}});
//
// A pattern follows the shell's rules (fnmatch): * stands for any characters, ? for one, [12] for 1
// or 2.

#include <string>

#include "nn/module.h"

namespace rondo::nn {

bool matches(const std::string& name, const std::string& pattern);

/// The parameters that require a gradient and whose names match (parameters_like) or do not match
/// (parameters_unlike) the pattern. Throws Error if the result is empty.
Tensors parameters_like(Module& module, const std::string& pattern);
Tensors parameters_unlike(Module& module, const std::string& pattern);

/// Stops (freeze) or resumes (unfreeze) training of the parameters whose names match; returns their
/// number. If no name matches, throws Error with the pattern and a few names. A frozen batch norm
/// still updates its running statistics, unless it is in eval mode.
std::int64_t freeze(Module& module, const std::string& pattern);
std::int64_t unfreeze(Module& module, const std::string& pattern);

}  // namespace rondo::nn
