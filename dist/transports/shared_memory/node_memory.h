#pragma once
// NodeMemory: everything that the ranks of one machine share: the space in which they synchronize,
// the windows that Communicator::allocate has handed out, and, if permitted, access to each other's
// memory.

#include <map>
#include <memory>
#include <mutex>

#include "dist/transports/shared_memory/all_reduce.h"
#include "dist/transports/shared_memory/space.h"
#include "tensor/storage.h"

namespace rondo::dist {

class NodeMemory final : public SharedWindows {
 public:
  NodeMemory(std::shared_ptr<Segment> space, int rank, int ranks)
      : space(std::move(space), rank, ranks) {}

  SharedSpace space;
  PeerMemory peers;

  /// The size of a window's segment with `bytes` for each rank.
  static std::size_t bytes_for(std::size_t bytes, int ranks);
  /// Returns this rank's section of a new window. All ranks add the same windows in the same order,
  /// so the windows' numbers are equal. The segment lives as long as the storage.
  StoragePtr add_window(const std::shared_ptr<Segment>& segment, std::size_t bytes);
  SharedPlace place_of(const void* data, std::size_t bytes) const override;
  char* section(std::int64_t window, int r) const override;

 private:
  struct Window {
    std::weak_ptr<Segment> segment;
    char* first = nullptr;
    std::size_t stride = 0;  // bytes from one rank's section to the next
  };
  mutable std::mutex mutex_;  // a collective under way reads what allocate changes
  std::map<std::int64_t, Window> windows_;
  std::int64_t newest_ = 0;
};

}  // namespace rondo::dist
