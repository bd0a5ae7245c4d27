#pragma once
// FlightRecorder: what a rank's last collectives were, whose data they carried, and when.
//
// When ranks disagree or one hangs, the question is what each of them was about to do. So a rank
// keeps the last 256 of its collectives, of all ranks and of groups in the order in which they were
// issued: which, with what shape and dtype, for which bucket of gradients, when it was issued,
// begun and over. With RONDO_FLIGHT_RECORD=DIR in the environment, a rank that fails writes them to
// DIR/rank<R>.txt. `--trace` draws them.
//
// A GPU's collectives are in it, too. When they began and ended the host learns from marks in the
// GPU's stream, some 20 ms later; what a failing rank writes may be behind by as much. Those inside
// a captured graph are not: each replay is one record. Messages are not, either.
// Thread-safe.

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/collectives/checked.h"
#include "dist/transports/transport.h"

namespace rondo::dist {

struct FlightRecord {
  Signature signature;  // what it was
  std::string about;    // whose data: "bucket 2 of 8 (fc.weight … conv1.weight)"; or empty
  std::string group;    // whose ranks: "{1, 3}"; empty: all
  Clock::time_point issued{}, started{}, finished{};
  enum State : std::uint8_t { waiting, running, done, failed } state = waiting;
};

class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 256) { set_capacity(capacity); }
  /// Whose records are a group's, among all that this one has.
  std::shared_ptr<FlightRecorder> of_group(std::string group) const;

  /// The number of a new record, which the functions below want. It may begin at once.
  std::uint64_t issued(const Signature& signature, const std::string& about, bool begins = false);
  void started(std::uint64_t record, Clock::time_point at = Clock::now());
  void finished(std::uint64_t record, bool is_well, Clock::time_point at = Clock::now());

  /// Oldest first. A group's are its own.
  std::vector<FlightRecord> records() const;
  /// A line for each record, times in seconds before `now`.
  std::string text(Clock::time_point now = Clock::now()) const;
  /// Whether older ones make room for new ones from here on.
  bool is_full() const;
  /// How many were kept before.
  std::size_t set_capacity(std::size_t capacity);

 private:
  struct Records {
    std::mutex mutex;
    std::size_t capacity = 1;  // at least 1
    std::uint64_t first = 0;   // the number of the oldest record that is kept
    std::deque<FlightRecord> records;
    FlightRecord* find(std::uint64_t record);
  };

  std::shared_ptr<Records> all_ = std::make_shared<Records>();  // also those of groups
  std::string group_;
};

}  // namespace rondo::dist
