#pragma once
// Exchange: each rank sends different data to each other rank. Gather, scatter, all-to-all and
// all-gather of uneven parts are special cases, in which some pairs send nothing.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/transports/transport.h"
#include "tensor/shape.h"

namespace rondo::dist {

/// Describes the bytes of a parcel. It is sent as raw bytes before them. No rank needs to know what
/// two other ranks send each other; only the sender and the receiver of a parcel must agree.
struct Contents {
  std::int64_t dtype = -1, dims = 0;  // dtype -1: no data
  std::int64_t sizes[Dims::max_rank] = {};
  bool operator==(const Contents&) const = default;
  /// Whether a parcel may be received as `other`: both are equal, or both are empty.
  bool suits(const Contents& other) const;

 private:
  bool is_empty() const;
};
/// "f32 [2, 3]", "nothing".
std::string text_of(const Contents& contents);

/// The bytes to send to a peer and to receive from it. 0 bytes are not sent.
struct Parcel {
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  void* recv = nullptr;
  std::size_t recv_bytes = 0;
  // Whether Contents are sent (tells) and received (hears) before the bytes, also for an empty
  // parcel: otherwise a rank that sends something and a peer that expects nothing would not notice.
  // Not needed where both ranks certainly agree.
  bool tells = false, hears = false;
  Contents sent, wanted, received = {};
};

/// parcels[p]: to and from rank p; this rank's own entry is ignored. In step t rank r sends to r +
/// t and receives from r - t, so each rank sends and receives one parcel per step; `window` steps
/// are under way at a time. Throws CommError "rank 1 sends f32 [2, 3] where rank 0 wants f32 [6]".
/// The dtypes and shapes of two empty parcels may differ.
std::unique_ptr<Operation> exchange(Transport& transport,
                                    std::shared_ptr<std::vector<Parcel>> parcels, int tag,
                                    int window = 4);

}  // namespace rondo::dist
