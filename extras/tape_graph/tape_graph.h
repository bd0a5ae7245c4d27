#pragma once
// tape_graph: the tape behind a tensor as a text for Graphviz (PyTorch users know torchviz).
//
//   std::ofstream("tape.dot") << tape_graph(loss, net.named_parameters());
//   // dot -Tsvg tape.dot > tape.svg
//
// Unlike a list of paths, the graph shows each node once, with as many arrows as gradients that it
// waits for.

#include <string>
#include <vector>

#include "nn/state_dict.h"
#include "tensor/tensor.h"

namespace rondo {

/// The nodes from which backward at y starts and which it reaches. A node has the name of its op; a
/// leaf has its name in `parameters`, or "leaf", and its shape. An arrow is a gradient. One that
/// leads to an op has the gradient's shape. Throws AutogradError if y has no tape.
std::string tape_graph(const Tensor& y, const std::vector<nn::NamedTensor>& parameters = {});

}  // namespace rondo
