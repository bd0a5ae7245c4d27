#include "dist/shared/space.h"

#include <atomic>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

// A counter has its pair of cache lines for itself: processors fetch two at a time.
constexpr std::size_t counter_bytes = 128;
constexpr std::size_t page = 4096;

std::size_t counters_bytes(int ranks) {
  const std::size_t bytes = counter_bytes * static_cast<std::size_t>(ranks);
  return (bytes + page - 1) / page * page;
}

}  // namespace

std::size_t SharedSpace::bytes_for(int ranks) {
  return counters_bytes(ranks) + static_cast<std::size_t>(ranks) * 2 * (sizeof(Slot) + stage_bytes);
}

SharedSpace::SharedSpace(std::shared_ptr<Segment> segment, int rank, int ranks)
    : segment_(std::move(segment)), rank_(rank), ranks_(ranks) {
  require<CommError>(segment_->bytes() >= bytes_for(ranks), "SharedSpace: ", segment_->bytes(),
                     " bytes for ", ranks, " ranks, which need ", bytes_for(ranks));
}

std::uint64_t& SharedSpace::arrivals(int r) const {
  char* place = segment_->data() + counter_bytes * static_cast<std::size_t>(r);
  return *reinterpret_cast<std::uint64_t*>(place);
}
Slot& SharedSpace::slot_of(int r, std::uint64_t step) const {
  const std::size_t index = static_cast<std::size_t>(r) * 2 + step % 2;
  char* place = segment_->data() + counters_bytes(ranks_) + index * sizeof(Slot);
  return *reinterpret_cast<Slot*>(place);
}
char* SharedSpace::stage_of(int r, std::uint64_t step) const {
  const std::size_t index = static_cast<std::size_t>(r) * 2 + step % 2;
  char* slots_end = segment_->data() + counters_bytes(ranks_) +
                    static_cast<std::size_t>(ranks_) * 2 * sizeof(Slot);
  return slots_end + index * stage_bytes;
}

Slot& SharedSpace::next_slot() { return slot_of(rank_, step_ + 1); }
char* SharedSpace::next_stage() { return stage_of(rank_, step_ + 1); }
const Slot& SharedSpace::slot(int r) const { return slot_of(r, step_); }
char* SharedSpace::stage(int r) const { return stage_of(r, step_); }

void SharedSpace::arrive() {
  ++step_;
  first_unseen_ = 0;
  std::atomic_ref(arrivals(rank_)).store(step_, std::memory_order_release);
}

int SharedSpace::missing() {
  for (; first_unseen_ < ranks_; ++first_unseen_) {
    if (std::atomic_ref(arrivals(first_unseen_)).load(std::memory_order_acquire) < step_)
      return first_unseen_;
  }
  return -1;
}

}  // namespace rondo::dist
