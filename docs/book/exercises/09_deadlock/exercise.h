#pragma once
// What start.cpp and solution.cpp define, and what they may use.

#include <rondo/rondo.h>

/// Sends `sent` to the next rank of the ring, and returns what the previous rank sent.
float shift(rondo::dist::Transport& transport, float sent);

/// Sends a value, and returns when the peer has received it. Throws CommError after two seconds.
void blocking_send(rondo::dist::Transport& transport, int peer, float value);
/// Returns the value that the peer sends. Throws CommError after two seconds.
float blocking_recv(rondo::dist::Transport& transport, int peer);
