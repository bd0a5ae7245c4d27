#pragma once
// SharedSpace: where the ranks of one machine meet.
//
// Note [Steps]
// The ranks go through memory in steps: before a step each writes what the others are to read, then
// says that it has arrived; when all have, each reads. What is read in step s lies in half s % 2 of
// its rank's memory, and may be written again before step s + 2: whoever has arrived at step s + 1
// has read all it wanted of step s, and nobody gets ready for step s + 2 before all have arrived at
// step s + 1. So an arrival is at once "you can read this" and "I have read that".
//
// In a stage the others may answer: in step s each writes over the part that it alone has read, and
// the stage's own rank reads the answers in step s + 1, before it fills that half anew for step
// s + 2. So a cache line goes to the other core and back, and is never taken away from one that has
// read it last, which takes longer.
//
// Between two cores a cache line takes some 100 ns, most of what a small collective takes. So the
// number of the step lies in the line that says what is meant and holds the first bytes of data,
// and the line that has been waited for is all that a step costs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "dist/collectives/checked.h"
#include "dist/transports/shared_memory/segment.h"

namespace rondo::dist {

/// Where a tensor lies in memory that Communicator::allocate shared; 0: in none.
struct SharedPlace {
  std::int64_t window = 0, offset = 0;
  bool operator==(const SharedPlace&) const = default;
};

/// Where the data of a collective lies that does not bring it in its slot.
struct Whereabouts {
  SharedPlace place;
  std::uint64_t address = 0;  // in its own process
};

/// What a rank tells the others as a collective begins. An all-reduce that fits brings its data,
/// all others say where it lies; which of the two it is follows from the signature. The first 48
/// bytes share the line of `arrived`.
struct alignas(128) Slot {  // processors fetch two lines at a time
  std::uint64_t arrived;    // the last step of this half that the rank has arrived at
  std::uint64_t digest;     // the signature's
  union {
    char data[4096];
    Whereabouts whereabouts;
  };
  Signature signature;  // read where digests differ
};
static_assert(offsetof(Slot, data) == 16 && std::is_trivially_copyable_v<Slot>);
constexpr std::size_t slot_bytes = sizeof(Slot::data);

class SharedSpace {
 public:
  /// Of a stage, which a block of a tensor fills. Large enough that a step's arrival does not show,
  /// and small enough that what is written stays in a core's cache until it is read.
  static constexpr std::size_t stage_bytes = 256 << 10;
  /// What the segment must have.
  static std::size_t bytes_for(int ranks);
  SharedSpace(std::shared_ptr<Segment> segment, int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// This rank's slot and stage of the next step, to be written before arrive(). The stage is for
  /// data that does not lie in shared memory: each rank's is stage_bytes long.
  Slot& next_slot();
  char* next_stage();
  /// All that this rank wrote so far can be read by the others once they have seen it arrive.
  void arrive();
  /// The first rank that has not arrived at this rank's step, or -1: all have.
  int missing();
  /// Rank r's slot and stage of this step.
  const Slot& slot(int r) const;
  char* stage(int r) const;
  /// This rank's stage of the step before, with the others' answers. It is the memory of
  /// next_stage(): to be read before anything is written there.
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
