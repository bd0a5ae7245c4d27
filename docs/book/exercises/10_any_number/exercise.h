#pragma once
// What start.cpp and solution.cpp define, and what they may use.

#include <rondo/rondo.h>

/// An all-reduce of one value by recursive doubling: returns the sum of all ranks' values.
float sum_of_all(rondo::dist::Transport& transport, float value);

/// Sends `value` to the peer, receives a value from it, and returns that.
float exchange(rondo::dist::Transport& transport, int peer, float value);
/// Half of it.
void send(rondo::dist::Transport& transport, int peer, float value);
float receive(rondo::dist::Transport& transport, int peer);
