// HostCollectives: the collectives in which each rank has different data for each other rank, one
// tensor to and from each.

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/host_collectives.h"

namespace rondo::dist {
namespace {

/// Bytes of a defined tensor; 0 for an undefined one.
std::size_t bytes_of_any(const Tensor& x) { return x.defined() ? bytes_of(x) : 0; }

}  // namespace

Begin HostCollectives::exchange(const Call& c) {
  const auto parcels = std::make_shared<std::vector<Parcel>>(c->from.size());
  return [=, this](ChunkBuffer&) {
    const bool to_root = std::string_view(c->name) == "gather";
    // Whether `sender` may have data for `receiver`.
    const auto meet = [&](int sender, int receiver) {
      return c->root < 0 || (to_root ? receiver : sender) == c->root;
    };
    for (int r = 0; r < world_size_; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const Tensor &to = c->to[i], &from = c->from[i];
      Parcel& parcel = (*parcels)[i];
      parcel.send_bytes = bytes_of_any(to);
      parcel.recv_bytes = bytes_of_any(from);
      if (parcel.send_bytes > 0) parcel.send = to.data_ptr();
      if (parcel.recv_bytes > 0) parcel.recv = from.data_ptr();
      parcel.tells = meet(rank_, r);
      parcel.hears = meet(r, rank_);
      parcel.sent = contents_of(to);
      parcel.wanted = contents_of(from);
    }
    const Parcel& own = (*parcels)[static_cast<std::size_t>(rank_)];
    if (own.recv_bytes > 0) std::memmove(own.recv, own.send, own.recv_bytes);
    return dist::exchange(*transport_, parcels, c->signature.tag());
  };
}

}  // namespace rondo::dist
