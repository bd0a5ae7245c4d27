#include "dist/transports/shared_memory/all_reduce.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "dist/collectives/algorithms/element_range.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::int64_t cache_line = 64;        // bytes
constexpr std::int64_t read_blocks = 1 << 20;  // read and added at a time, over all ranks
constexpr std::int64_t least_read =
    2 << 20;  // of a tensor of up to four ranks; below, stages are faster
constexpr std::int64_t bytes_a_poll = 256 << 10;        // added in place before others get a turn
constexpr auto time_to_hear = std::chrono::seconds(1);  // for the others to report a rank's end

/// memcpy in pieces that the C library moves with vector loads and stores. For larger sizes it uses
/// rep movsb, which is three times slower on some processors if source and target have the same
/// offset within a page (glibc's bug 30994).
void copy(void* into, const void* from, std::size_t bytes) {
  constexpr std::size_t piece = 1024;
  auto* target = static_cast<char*>(into);
  const auto* source = static_cast<const char*>(from);
  for (; bytes > piece; bytes -= piece, target += piece, source += piece)
    std::memcpy(target, source, piece);
  std::memcpy(target, source, bytes);
}

class SharedAllReduce final : public Operation {
 public:
  SharedAllReduce(SharedSpace& space, const SharedWindows& windows, const PeerMemory& peers,
                  Transport& transport, const Signature& signature, void* data, std::int64_t count,
                  DType dtype, ReduceOp op, ChunkBuffer& scratch)
      : space_(space),
        windows_(windows),
        peers_(peers),
        transport_(transport),
        data_(static_cast<char*>(data)),
        count_(count),
        size_(size_of(dtype)),
        dtype_(dtype),
        op_(op),
        divisor_(op == ReduceOp::avg ? space.ranks() : 1),
        scratch_(scratch) {
    if (is_small()) {  // wherever the tensor is
      meeting_.emplace(space, transport, signature, std::span(data_, size_t_of({0, count_})));
      return;
    }
    const SharedPlace place = windows.place_of(data, size_t_of({0, count_}));
    if (place.window == 0 && !is_read()) copy_in(block(0));
    const Whereabouts whereabouts{place, reinterpret_cast<std::uint64_t>(data)};
    meeting_.emplace(space, transport, signature, whereabouts);
  }

  Poll poll() override {
    if (phase_ == Phase::meeting) {
      if (!meeting_->is_over()) return Poll::idle;
      choose();
    }
    switch (phase_) {
      case Phase::slots:
        add_up_slots();
        return Poll::done;
      case Phase::in_place:
        return add_up_in_place();
      case Phase::reading:
        return add_up_read();
      case Phase::summed:
        return all_here() ? read_sums() : Poll::idle;
      case Phase::last_step:
        return all_here() ? Poll::done : Poll::idle;
      case Phase::staged:
        return all_here() ? pass_block() : Poll::idle;
      case Phase::meeting:
        break;  // choose() has left this phase
    }
    return Poll::idle;
  }

  std::string waiting_for() const override {
    if (phase_ == Phase::meeting) return meeting_->waiting_for();
    return missing_rank(space_, transport_) + " to add its part";
  }
  int awaits() const override { return meeting_->awaits(); }

 private:
  enum class Phase { meeting, slots, in_place, reading, summed, staged, last_step };

  bool is_read() const {
    return peers_.is_readable() && bytes(count_) >= least_read * std::max(space_.ranks(), 4) / 4;
  }
  bool is_small() const { return static_cast<std::size_t>(count_ * size_) <= slot_bytes; }

  void choose() {
    if (is_small()) {
      phase_ = Phase::slots;
      return;
    }
    const SharedPlace place = space_.slot(0).whereabouts.place;
    bool is_one_place = place.window != 0, is_copied_in = true;
    for (int r = 0; r < space_.ranks(); ++r) {
      const Whereabouts& theirs = space_.slot(r).whereabouts;
      first_address_.push_back(theirs.address);
      is_one_place &= theirs.place == place;
      is_copied_in &= theirs.place.window == 0;
    }
    if (is_one_place) {
      phase_ = Phase::in_place;
      const ElementRange mine = part(space_.rank(), {0, count_});
      next_ = mine.begin;
      for (int r = 0; r < space_.ranks(); ++r)
        theirs_.push_back(windows_.section(place.window, r) + place.offset);
      return;
    }
    if (is_read()) {
      phase_ = Phase::reading;
      next_ = part(space_.rank(), {0, count_}).begin;
      return;
    }
    phase_ = Phase::staged;
    if (is_copied_in) return;
    copy_in(block(0));  // some tensors are in a window, others are not
    space_.arrive();
  }

  bool all_here() {
    if (space_.missing() < 0) return true;
    transport_.check_peers();
    return false;
  }

  void add_up_slots() {
    std::vector<const void*> from;
    for (int r = 0; r < space_.ranks(); ++r) from.push_back(space_.slot(r).data);
    void* into[] = {data_};
    combine_all(into, from, count_, dtype_, op_, divisor_);
  }

  Poll add_up_in_place() {
    const ElementRange mine = part(space_.rank(), {0, count_});
    const std::int64_t n = std::min<std::int64_t>(mine.end - next_, bytes_a_poll / size_);
    std::vector<void*> into;
    for (char* x : theirs_) into.push_back(x + bytes(next_));
    const std::vector<const void*> from(into.begin(), into.end());
    if (n > 0) combine_all(into, from, n, dtype_, op_, divisor_);
    next_ += n;
    if (next_ < mine.end) return Poll::moved;
    space_.arrive();
    phase_ = Phase::last_step;
    return Poll::moved;
  }

  /// Reads elements from `first` on of rank r's tensor. Returns false if its process no longer
  /// exists. The side channel notices that in a moment and reports it in the same words as on all
  /// other ranks.
  bool read(int r, char* into, std::int64_t first, std::size_t n) {
    const std::uint64_t address =
        first_address_[static_cast<std::size_t>(r)] + static_cast<std::uint64_t>(bytes(first));
    if (peers_.read(r, into, address, n)) return true;
    const auto now = Clock::now();
    if (!gone_since_) gone_since_ = now;
    require<CommError>(now - *gone_since_ < time_to_hear, "rank ", transport_.rank_in_world(r),
                       " (process ", peers_.process(r), ") has ended");
    return false;
  }

  // Reads a block of each other rank at a time, which stays in the cache until it is added.
  Poll add_up_read() {
    const ElementRange mine = part(space_.rank(), {0, count_});
    const std::int64_t n =
        std::min<std::int64_t>(mine.end - next_, read_blocks / space_.ranks() / size_);
    if (n > 0) {
      const auto block = static_cast<std::size_t>(bytes(n));
      std::vector<const void*> from;
      char* place = scratch_.reserve(block * static_cast<std::size_t>(space_.ranks()));
      for (int r = 0; r < space_.ranks(); ++r) {
        if (r != space_.rank() && !read(r, place, next_, block)) return Poll::idle;
        from.push_back(r == space_.rank() ? data_ + bytes(next_) : place);
        place += block;
      }
      void* into[] = {data_ + bytes(next_)};
      combine_all(into, from, n, dtype_, op_, divisor_);
      next_ += n;
    }
    if (next_ < mine.end) return Poll::moved;
    space_.arrive();
    phase_ = Phase::summed;
    return Poll::moved;
  }
  // The last step: no rank may overwrite its tensor before the others have read its sums.
  Poll read_sums() {
    for (int r = 0; r < space_.ranks(); ++r) {
      const ElementRange theirs = part(r, {0, count_});
      if (r != space_.rank() && theirs.size() > 0 &&
          !read(r, at(theirs), theirs.begin, size_t_of(theirs)))
        return Poll::idle;
    }
    space_.arrive();
    phase_ = Phase::last_step;
    return Poll::moved;
  }

  // All stages hold block_, and this rank's last stage holds the sums of the block before it. After
  // the last block there are only the sums.
  Poll pass_block() {
    if (block_ > 0) copy_out(block(block_ - 1));
    if (block_ * block_count() >= count_) return Poll::done;
    add_up(block(block_));
    ++block_;
    copy_in(block(block_));
    space_.arrive();
    return Poll::moved;
  }

  // A stage has room for one part of a block for each rank (its own part is empty). It first holds
  // the values that the rank should add, and then the rank's sums.
  std::int64_t part_bytes() const {
    return static_cast<std::int64_t>(SharedSpace::stage_bytes) / space_.ranks() / cache_line *
           cache_line;
  }
  std::int64_t block_count() const { return part_bytes() / size_ * space_.ranks(); }
  ElementRange block(std::int64_t b) const {
    return {std::min(b * block_count(), count_), std::min((b + 1) * block_count(), count_)};
  }
  /// The part of a range that rank r adds: whole cache lines, so that no two ranks write to one
  /// line.
  ElementRange part(int r, ElementRange of) const {
    const std::int64_t lines = (bytes(of.size()) + cache_line - 1) / cache_line;
    const std::int64_t most = (lines + space_.ranks() - 1) / space_.ranks() * cache_line / size_;
    return {std::min(of.begin + r * most, of.end), std::min(of.begin + (r + 1) * most, of.end)};
  }

  void copy_in(ElementRange of) {
    for (int r = 0; r < space_.ranks(); ++r) {
      const ElementRange theirs = part(r, of);
      if (r != space_.rank() && theirs.size() > 0)
        copy(space_.next_stage() + r * part_bytes(), at(theirs), size_t_of(theirs));
    }
  }
  void add_up(ElementRange of) {
    const int me = space_.rank();
    const ElementRange mine = part(me, of);
    if (mine.size() == 0) return;
    std::vector<const void*> from;
    std::vector<void*> into = {at(mine)};
    for (int r = 0; r < space_.ranks(); ++r) {
      char* staged = space_.stage(r) + me * part_bytes();
      from.push_back(r == me ? at(mine) : staged);
      if (r != me) into.push_back(staged);
    }
    combine_all(into, from, mine.size(), dtype_, op_, divisor_);
  }
  void copy_out(ElementRange of) {
    for (int r = 0; r < space_.ranks(); ++r) {
      const ElementRange theirs = part(r, of);
      if (r != space_.rank() && theirs.size() > 0)
        copy(at(theirs), space_.last_stage() + r * part_bytes(), size_t_of(theirs));
    }
  }

  std::int64_t bytes(std::int64_t count) const { return count * size_; }
  std::size_t size_t_of(ElementRange r) const { return static_cast<std::size_t>(bytes(r.size())); }
  char* at(ElementRange r) const { return data_ + bytes(r.begin); }

  SharedSpace& space_;
  const SharedWindows& windows_;
  const PeerMemory& peers_;
  Transport& transport_;
  char* data_;
  std::int64_t count_, size_;
  DType dtype_;
  ReduceOp op_;
  int divisor_;
  Phase phase_ = Phase::meeting;
  std::vector<char*> theirs_;                 // for `in place`: the other ranks' tensors
  std::vector<std::uint64_t> first_address_;  // of each rank's tensor
  ChunkBuffer& scratch_;
  std::int64_t next_ = 0, block_ = 0;
  std::optional<Meeting> meeting_;
  std::optional<Clock::time_point> gone_since_;
};

}  // namespace

std::unique_ptr<Operation> shared_all_reduce(SharedSpace& space, const SharedWindows& windows,
                                             const PeerMemory& peers, Transport& transport,
                                             ChunkBuffer& scratch, const Signature& signature,
                                             void* data, std::int64_t count, DType dtype,
                                             ReduceOp op) {
  return std::make_unique<SharedAllReduce>(space, windows, peers, transport, signature, data, count,
                                           dtype, op, scratch);
}

}  // namespace rondo::dist
