#pragma once
// SharedSpace: where the ranks of one machine meet.
//
// Note [Steps]
// The ranks go through memory in steps: before a step each writes what the others are to read, then
// says that it has arrived; when all have, each reads. What is read in step s lies in half s % 2 of
// its rank's memory, and may be written again before step s + 2: whoever has arrived at step s + 1
// has read all it wanted of step s, and nobody gets ready for step s + 2 before all have arrived at
// step s + 1. So an arrival is at once "you can read this" and "I have read that". In a stage the
// others may also write in step s, each to a part of its own, what its rank reads in step s + 1
// from last_stage(): a line goes there and back and is never fetched to be overwritten.
//
// Between two cores a cache line takes some 100 ns, most of what a small collective takes. So the
// number of the step lies in the line that says what is meant and holds the first bytes of data,
// and the line that has been waited for is all that a step costs.

#include <cstdint>
#include <memory>

#include "dist/algorithms/checked.h"
#include "dist/shared/segment.h"

namespace rondo::dist {

/// Where a tensor lies in memory that Communicator::allocate shared; 0: in none.
struct SharedPlace {
  std::int64_t window = 0, offset = 0;
  bool operator==(const SharedPlace&) const = default;
};

/// Where what is too large for a slot lies.
struct Whereabouts {
  SharedPlace place;
  std::uint64_t address = 0;  // in its own process
};

/// What a rank tells the others as a collective begins.
struct alignas(128) Slot {  // processors fetch two lines at a time
  std::uint64_t arrived;    // the last step of this half that the rank has arrived at
  std::uint64_t digest;     // the signature's
  union {                   // as the signature says: of up to 48 bytes the rest of the line
    char data[4096];
    Whereabouts whereabouts;
  };
  Signature signature;  // read where digests differ
};
constexpr std::size_t slot_bytes = sizeof(Slot::data);

class SharedSpace {
 public:
  /// The most that goes through a stage in one step.
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
  /// This rank's stage of the step before, with what others have written there since.
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
