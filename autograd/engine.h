#pragma once
// The engine: runs the tape backwards.
//
// Single-threaded and iterative. First it counts, for every node reachable from the roots, how many
// gradients will arrive (its dependencies). Then it repeatedly runs one of the nodes that have
// received all their gradients: the one created last. So the program fixes the order, and all ranks
// use the same order. A hook or a custom op may itself call backward (re-entrant).
//
// Read next: autograd/ops/conv.h, an op and its node.

#include <cstdint>
#include <functional>

#include "tensor/tensor.h"

namespace rondo {

struct BackwardOptions {
  bool retain_graph = false;  // keep what the forward saved, for a second backward
  bool create_graph = false;  // record the backward itself, for second derivatives; implies retain
};

/// Adds d(sum of roots · gradients) / d(leaf) into .grad of every leaf reached. `gradients` may be
/// empty if every root has one element. With create_graph, a leaf's .grad is itself on the tape,
/// and the tape holds the leaf: this cycle lives until zero_grad. `grad` below creates no such
/// cycle.
void backward(const Tensors& roots, const Tensors& gradients = {}, BackwardOptions options = {});

struct GradOptions {
  Tensors grad_outputs = {};  // empty: ones, for outputs of one element
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused =
      false;  // an undefined tensor for an input that no output depends on, instead of an error
};

/// d(sum of outputs · grad_outputs) / d(inputs). Leaves every .grad alone. Hooks on the inputs are
/// applied to the results. Runs and frees only the nodes between outputs and inputs: the graph
/// below an input can still be used for another backward. Throws AutogradError for an input that no
/// output depends on, unless allow_unused.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options = {});

/// How many outermost calls of `backward` have ended on this thread (calls of `grad` do not count).
std::uint64_t backwards_run();

/// Runs `f` on this thread when the current outermost backward has ended, before `backward`
/// returns. A callback may queue another one. Hooks call this: DDP uses it to wait for its last
/// all-reduce. Throws AutogradError if no backward is running.
void queue_callback(std::function<void()> f);

}  // namespace rondo
