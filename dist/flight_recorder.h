#pragma once
// FlightRecorder: what a rank's last collectives were, whose data they carried, and when.
//
// When ranks disagree or one hangs, the question is what each of them was about to do. So each
// communicator keeps the last 256 of its collectives: which, with what shape and dtype, for which
// bucket of gradients, when it was issued, begun and over. With RONDO_FLIGHT_RECORD=DIR in the
// environment, a rank that fails writes those of the world's communicator, which are DDP's, to
// DIR/rank<R>.txt; groups have records of their own. `--trace` draws them.
// Thread-safe.

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "dist/algorithms/checked.h"
#include "dist/transport.h"

namespace rondo::dist {

struct FlightRecord {
  Signature signature;  // what it was
  std::string about;    // whose data: "bucket 2 of 8 (fc.weight … conv1.weight)"; or empty
  Clock::time_point issued{}, started{}, finished{};
  enum State : std::uint8_t { waiting, running, done, failed } state = waiting;
};

class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 256) { set_capacity(capacity); }

  /// The number of a new record, which the functions below want. It may begin at once.
  std::uint64_t issued(const Signature& signature, const std::string& about, bool begins = false);
  void started(std::uint64_t record);
  void finished(std::uint64_t record, bool is_well);

  /// Oldest first.
  std::vector<FlightRecord> records() const;
  /// A line for each record, times in seconds before `now`.
  std::string text(Clock::time_point now = Clock::now()) const;
  void set_capacity(std::size_t capacity);

 private:
  FlightRecord* find(std::uint64_t record);

  mutable std::mutex mutex_;
  std::size_t capacity_ = 1;  // at least 1
  std::uint64_t first_ = 0;   // the number of the oldest record that is kept
  std::deque<FlightRecord> records_;
};

}  // namespace rondo::dist
