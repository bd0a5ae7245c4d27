#pragma once
// SubsetTransport: some ranks of a transport as a separate transport, numbered in the order given.

#include <algorithm>
#include <vector>

#include "dist/transports/transport.h"
#include "tensor/error.h"

namespace rondo::dist {

/// "{1, 3}".
inline std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (int r : ranks) text += concat(text.empty() ? "{" : ", ", r);
  return text.empty() ? "{}" : text + "}";
}

class SubsetTransport : public Transport {
 public:
  /// Tag t of the subset is tag first_tag + t of `world`, which must outlive the subset.
  SubsetTransport(Transport& world, std::vector<int> ranks, int first_tag = 0)
      : world_(world),
        ranks_(std::move(ranks)),
        first_tag_(first_tag),
        rank_(static_cast<int>(std::ranges::find(ranks_, world_.rank()) - ranks_.begin())) {}

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(ranks_.size()); }
  int rank_in_world(int r) const override { return world_.rank_in_world(rank_above(r)); }
  const char* name() const override { return world_.name(); }
  bool any_thread() const override { return world_.any_thread(); }
  int max_tag() const override { return tag_limit - 1; }
  Arithmetic& arithmetic() override { return world_.arithmetic(); }

  Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    return world_.send(at(peer), first_tag_ + tag, data, bytes);
  }
  Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    return world_.recv(at(peer), first_tag_ + tag, data, bytes);
  }
  /// Bytes sent by the whole world's transport.
  std::int64_t bytes_sent() const override { return world_.bytes_sent(); }
  bool test(Request& request) override { return world_.test(request); }
  void abandon(Request& request) noexcept override { world_.abandon(request); }
  void check_peers() override { world_.check_peers(); }
  /// Ends the whole world: its other ranks would wait for this one.
  void abort(int status) noexcept override { world_.abort(status); }

 private:
  int rank_above(int r) const { return ranks_[static_cast<std::size_t>(r)]; }
  int at(int peer) const {
    require<CommError>(0 <= peer && peer < world_size(), "rank ", peer,
                       " does not exist in the group ", text_of(ranks_));
    return rank_above(peer);
  }

  Transport& world_;
  std::vector<int> ranks_;  // of world_
  int first_tag_, rank_;
};

}  // namespace rondo::dist
