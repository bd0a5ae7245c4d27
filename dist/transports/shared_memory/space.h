#pragma once
// SharedSpace: how the ranks of one machine synchronize.
//
// Note [Steps]
// The ranks proceed in steps. Before a step each rank writes what the others will read, then marks
// that it has arrived. When all have arrived, each reads. The data that is read in step s is in
// half s % 2 of its rank's memory. It may be overwritten when that rank prepares step s + 2: a rank
// that has arrived at step s + 1 has read everything it needs of step s, and no rank prepares step
// s + 2 before all have arrived at step s + 1. So an arrival means both "you can read this" and "I
// have read that".
//
// In a stage the others may answer: in step s each rank writes over the part that only it has read.
// The owner of the stage reads the answers in step s + 1, before it fills that half again for step
// s + 2. So a cache line moves to the other core and back. A line is never taken from a core that
// was not the last to use it, which would take longer.
//
// Moving a cache line between two cores takes some 100 ns, most of the time of a small collective.
// Therefore the step's number is in the same line as the signature's digest and the first bytes of
// data. This line, which the ranks wait for anyway, is the only cost of a step.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "dist/collectives/checked.h"
#include "dist/transports/shared_memory/segment.h"

namespace rondo::dist {

/// The place of a tensor in memory from Communicator::allocate. Window 0: not in such memory.
struct SharedPlace {
  std::int64_t window = 0, offset = 0;
  bool operator==(const SharedPlace&) const = default;
};

/// Where the data of a collective is, if it is not in the slot.
struct Whereabouts {
  SharedPlace place;
  std::uint64_t address = 0;  // in its own process
};

/// What a rank tells the others when a collective begins. A small all-reduce has its data in the
/// slot; all other collectives tell where their data is. The signature determines which of the two.
/// The first 48 bytes are in the same cache line as `arrived`.
struct alignas(128) Slot {  // processors fetch two lines at a time
  std::uint64_t arrived;    // the last step of this half that the rank has arrived at
  std::uint64_t digest;     // the signature's
  union {
    char data[4096];
    Whereabouts whereabouts;
  };
  Signature signature;  // read if digests differ
};
static_assert(offsetof(Slot, data) == 16 && std::is_trivially_copyable_v<Slot>);
constexpr std::size_t slot_bytes = sizeof(Slot::data);

class SharedSpace {
 public:
  /// The size of a stage, which a block of a tensor fills. Large enough that the cost of a step is
  /// small in comparison; small enough that the data stays in a core's cache until it is read.
  static constexpr std::size_t stage_bytes = 256 << 10;
  /// The size that the segment needs.
  static std::size_t bytes_for(int ranks);
  SharedSpace(std::shared_ptr<Segment> segment, int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// This rank's slot and stage of the next step, to be written before arrive(). The stage, of
  /// stage_bytes, is for data that is not in shared memory.
  Slot& next_slot();
  char* next_stage();
  /// After this, other ranks that have seen the arrival can read everything that this rank has
  /// written.
  void arrive();
  /// The first rank that has not arrived at this rank's step, or -1 if all have.
  int missing();
  /// Rank r's slot and stage of this step.
  const Slot& slot(int r) const;
  char* stage(int r) const;
  /// This rank's stage of the step before, with the others' answers. It is the same memory as
  /// next_stage(): read it before writing there.
  char* last_stage() const;

 private:
  Slot& slot_of(int r, std::uint64_t step) const;
  char* stage_of(int r, std::uint64_t step) const;

  std::shared_ptr<Segment> segment_;
  int rank_, ranks_;
  std::uint64_t step_ = 0;
  int first_unseen_ = 0;  // the ranks below it are known to have arrived
};

}  // namespace rondo::dist
