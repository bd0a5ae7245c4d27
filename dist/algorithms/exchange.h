#pragma once
// Exchange: each rank has something of its own for each other rank. Gather, scatter, all-to-all and
// an all-gather of uneven parts are all this, with nothing for some.

#include <memory>
#include <vector>

#include "dist/transport.h"

namespace rondo::dist {

/// What goes to a peer and what comes from it; nothing is sent where both agree on 0 bytes.
struct Parcel {
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  void* recv = nullptr;
  std::size_t recv_bytes = 0;
};

/// parcels[p]: to and from rank p; the own rank's is not looked at. In step t rank r sends to
/// r + t and receives from r - t, so that in each step every rank has one message each way, and
/// `window` steps are under way at a time.
std::unique_ptr<Operation> exchange(Transport& transport, std::vector<Parcel> parcels, int tag,
                                    int window = 4);

}  // namespace rondo::dist
