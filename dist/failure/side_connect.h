#pragma once
// How the ranks of a side channel connect. For dist/failure/side_channel.cpp, where what they say
// to each other afterwards is.
//
// Note [Handshake]
// Other users of a machine, and other machines, can connect to a rank's listener, and can listen
// where a rank is expected. So MPI, which only ranks take part in, carries a secret of 256 bits,
// new for each channel (every rank draws one, and rank 0's is used). Both sides of a connection
// prove that they know it; the secret itself never travels on the connection:
//
//   caller → listener   the caller's rank, the listener's rank, and 16 random bytes
//   listener → caller   16 random bytes
//   caller → listener   HMAC-SHA256(secret, "caller", both ranks, both random values)
//   listener → caller   HMAC-SHA256(secret, "listener", both ranks, both random values)
//   caller → listener   one byte: only now does the listener know that the caller counts on it
//
// What was recorded on one connection proves nothing on another, since the random values differ,
// and what one side sent cannot be sent back, since the roles differ. What follows is neither
// encrypted nor authenticated: somebody who can change packets between the machines is not kept
// out, as with MPI itself.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "dist/failure/side_channel.h"
#include "dist/failure/sockets.h"
#include "dist/transports/transport.h"

namespace rondo::dist::side {

/// A connection to a neighbour that has proved to be it.
struct Link {
  int rank = -1;
  std::string name;  // Transport::name_of
  pid_t process = 0;
  std::string on;                        // where the peer is, if not here: " on node7"
  std::chrono::milliseconds limit = {};  // of silence: the longer one of both sides' options
  Socket socket;
  std::string in, out;      // received and not read; said and not sent
  Clock::time_point heard;  // when something came last
  bool has_said_goodbye = false;
};

/// Connects this rank to its neighbours: of two, the rank with the higher number calls the other.
/// The ranks of one machine use Unix domain sockets; a rank listens on TCP only if a neighbour on
/// another machine is to call it. Waits until all are connected, or `options.time_to_connect` is
/// over, and stops listening then. Collective. Throws CommError for a RONDO_SOCKET_IFNAME that does
/// not name an interface.
std::vector<Link> connect_neighbours(Communicator& comm, const SideChannelOptions& options);

}  // namespace rondo::dist::side
