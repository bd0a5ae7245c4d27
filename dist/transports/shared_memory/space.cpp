#include "dist/transports/shared_memory/space.h"

#include <atomic>

#include "tensor/error.h"

namespace rondo::dist {

std::size_t SharedSpace::bytes_for(int ranks) {
  return static_cast<std::size_t>(ranks) * 2 * (sizeof(Slot) + stage_bytes);
}

SharedSpace::SharedSpace(std::shared_ptr<Segment> segment, int rank, int ranks)
    : segment_(std::move(segment)), rank_(rank), ranks_(ranks) {
  require<CommError>(segment_->bytes() >= bytes_for(ranks), "SharedSpace: ", segment_->bytes(),
                     " bytes for ", ranks, " ranks, which need ", bytes_for(ranks));
}

Slot& SharedSpace::slot_of(int r, std::uint64_t step) const {
  const std::size_t index = static_cast<std::size_t>(r) * 2 + step % 2;
  return reinterpret_cast<Slot*>(segment_->data())[index];
}
char* SharedSpace::stage_of(int r, std::uint64_t step) const {
  const std::size_t index = static_cast<std::size_t>(r) * 2 + step % 2;
  char* slots_end = segment_->data() + static_cast<std::size_t>(ranks_) * 2 * sizeof(Slot);
  return slots_end + index * stage_bytes;
}

Slot& SharedSpace::next_slot() { return slot_of(rank_, step_ + 1); }
char* SharedSpace::next_stage() { return stage_of(rank_, step_ + 1); }
const Slot& SharedSpace::slot(int r) const { return slot_of(r, step_); }
char* SharedSpace::stage(int r) const { return stage_of(r, step_); }
char* SharedSpace::last_stage() const { return stage_of(rank_, step_ - 1); }

void SharedSpace::arrive() {
  ++step_;
  first_unseen_ = 0;
  std::atomic_ref(slot_of(rank_, step_).arrived).store(step_, std::memory_order_release);
}

int SharedSpace::missing() {
  for (; first_unseen_ < ranks_; ++first_unseen_) {
    std::atomic_ref arrived(slot_of(first_unseen_, step_).arrived);
    if (arrived.load(std::memory_order_acquire) < step_) return first_unseen_;
  }
  return -1;
}

}  // namespace rondo::dist
