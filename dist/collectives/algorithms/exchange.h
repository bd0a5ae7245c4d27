#pragma once
// Exchange: each rank has something of its own for each other rank. Gather, scatter, all-to-all and
// an all-gather of uneven parts are all this, with nothing for some.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/transports/transport.h"
#include "tensor/shape.h"

namespace rondo::dist {

/// What the bytes of a parcel are. Sent as it is, ahead of them: no two ranks need agree on what
/// all the others send each other, but whoever sends and whoever receives must.
struct Contents {
  std::int64_t dtype = -1, dims = 0;  // -1: nothing
  std::int64_t sizes[Dims::max_rank] = {};
  bool operator==(const Contents&) const = default;
  /// Whether one may be received as the other: equal, or both empty.
  bool suits(const Contents& other) const;

 private:
  bool is_empty() const;
};
/// "f32 [2, 3]", "nothing".
std::string text_of(const Contents& contents);

/// What goes to a peer and what comes from it; 0 bytes are not sent.
struct Parcel {
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  void* recv = nullptr;
  std::size_t recv_bytes = 0;
  // Whether contents go ahead, of an empty parcel, too: else one who sends something and one who
  // expects nothing would not hear of each other. Not where both ranks are sure to mean the same.
  bool tells = false, hears = false;
  Contents sent, wanted, received = {};
};

/// parcels[p]: to and from rank p; the own rank's is not looked at. In step t rank r sends to r + t
/// and receives from r - t, so that in each step every rank has one parcel each way, and `window`
/// steps are under way at a time. Throws CommError "rank 1 sends f32 [2, 3] where rank 0 wants f32
/// [6]"; of two empty parcels the dtypes and shapes may differ.
std::unique_ptr<Operation> exchange(Transport& transport,
                                    std::shared_ptr<std::vector<Parcel>> parcels, int tag,
                                    int window = 4);

}  // namespace rondo::dist
