#pragma once
// What start.cpp and solution.cpp define, and what they may use.

#include <rondo/rondo.h>

#include <vector>

/// The sum over all ranks of all values. Rank r of n has values r * L / n to (r + 1) * L / n - 1 of
/// L values; L and n are powers of two. The result has the same bits for every n, on all ranks. A
/// rank exchanges log2 n values.
float sum_of_all(rondo::dist::Transport& transport, const std::vector<float>& mine);

/// Sends `value` to `peer`, which must call it, too; returns what the peer sent.
float exchange(rondo::dist::Transport& transport, int peer, float value);
