#pragma once
// The engine: runs the tape backwards.
//
// Single-threaded and iterative: first it counts, for every node reachable from the roots, how many
// gradients will arrive (its dependencies); then it repeatedly runs, among the nodes that have got
// all of theirs, the one created last. The order is thus fixed by the program, equal on all ranks.
// A hook or a custom op may itself call backward (re-entrant).

#include <cstdint>
#include <functional>

#include "tensor/tensor.h"

namespace rondo {

struct BackwardOptions {
  bool retain_graph = false;  // keep what the forward saved, for a second backward
  bool create_graph = false;  // record the backward itself, for second derivatives; implies retain
};

/// Adds d(sum of roots · gradients) / d(leaf) into .grad of every leaf reached. `gradients` may be
/// empty when every root has one element. With create_graph a leaf's .grad is itself on the tape,
/// which holds the leaf: a cycle that lives until zero_grad. `grad` below has no such trouble.
void backward(const Tensors& roots, const Tensors& gradients = {}, BackwardOptions options = {});

struct GradOptions {
  Tensors grad_outputs = {};  // empty: ones, for outputs of one element
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused =
      false;  // an input that the outputs do not depend on gives an undefined tensor
};

/// d(sum of outputs · grad_outputs) / d(inputs), leaving every .grad alone. Hooks on the inputs
/// have run. Only what lies between outputs and inputs is run and freed: the graph below an input
/// stays good for a backward of its own. Throws AutogradError for an unused input unless allowed.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options = {});

/// How many outermost backwards have come to their end on this thread (not those of `grad`).
std::uint64_t backwards_run();

/// Runs `f` on this thread when the backward under way (the outermost one) has ended, before its
/// `backward` returns; a callback may queue another one. Called from hooks: DDP waits for its last
/// all-reduce there. Throws AutogradError when no backward is running.
void queue_callback(std::function<void()> f);

}  // namespace rondo
