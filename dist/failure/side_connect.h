#pragma once
// How the ranks of a side channel connect. Used by dist/failure/side_channel.cpp, which defines
// what they send afterwards.
//
// Note [Handshake]
// Other users of a machine, and other machines, can connect to a rank's listener, and can listen
// where a rank is expected. Therefore the ranks share a secret of 256 bits, which they exchange
// through MPI, in which only ranks take part. The secret is new for each channel (every rank draws
// one, and rank 0's is used). Both sides of a connection prove that they know it; the secret itself
// is never sent on the connection:
//
//   caller → listener   the caller's rank, the listener's rank, and 16 random bytes
//   listener → caller   16 random bytes
//   caller → listener   HMAC-SHA256(secret, "caller", both ranks, both random values)
//   listener → caller   HMAC-SHA256(secret, "listener", both ranks, both random values)
//   caller → listener   one byte: confirms to the listener that the caller uses the connection
//
// A recording of one connection proves nothing on another, since the random values differ. A proof
// cannot be sent back to its sender, since the roles differ. The later messages are neither
// encrypted nor authenticated: as with MPI itself, nothing protects against an attacker who
// can change packets between the machines.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "dist/failure/side_channel.h"
#include "dist/failure/sockets.h"
#include "dist/transports/transport.h"

namespace rondo::dist::side {

/// A connection to a neighbour that has proved its identity.
struct Link {
  int rank = -1;
  std::string name;  // Transport::name_of
  pid_t process = 0;
  std::string on;                        // the peer's machine, if it is another one: " on node7"
  std::chrono::milliseconds limit = {};  // of silence: the longer one of both sides' options
  Socket socket;
  std::string in, out;      // received but not parsed; queued but not sent
  Clock::time_point heard;  // when data last arrived
  bool has_said_goodbye = false;
};

/// Connects this rank to its neighbours. Of two ranks, the one with the higher number calls the
/// other. Ranks of one machine use Unix domain sockets; a rank listens on TCP only if a neighbour
/// on another machine will call it. Waits until all are connected or `options.time_to_connect` has
/// passed, then stops listening. Collective. Throws CommError if RONDO_SOCKET_IFNAME does not name
/// an interface.
std::vector<Link> connect_neighbours(Communicator& comm, const SideChannelOptions& options);

}  // namespace rondo::dist::side
