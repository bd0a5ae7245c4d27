#pragma once
// What start.cpp and solution.cpp define, and what they may use.

#include <rondo/rondo.h>

/// The first half of a ring all-reduce. `data` holds N segments of `length` elements, N being the
/// number of ranks. Afterwards segment (r + 1) % N of rank r holds the sum of this segment over all
/// ranks; its other segments may hold anything.
void reduce_scatter(rondo::dist::Transport& transport, float* data, std::size_t length);

/// Returns when the request is complete. Throws CommError after five seconds.
void wait(rondo::dist::Transport& transport, rondo::dist::Request request);
