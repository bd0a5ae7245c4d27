#pragma once
// FlightRecorder: a rank's last collectives, with the data that they carried and their times.
//
// If ranks disagree or one hangs, one must know what each of them was about to do. So a rank
// records its last 256 collectives, of all ranks and of groups, in the order in which they were
// issued: the name, shape and dtype, the bucket of gradients, and when the collective was issued,
// began and ended. If RONDO_FLIGHT_RECORD=DIR is set in the environment, a rank that fails writes
// them to DIR/rank<R>.txt. `--trace` draws them.
//
// Collectives of a GPU are recorded, too. The host learns from events in the GPU's stream when they
// began and ended, some 20 ms later; the file of a failing rank may be behind by as much.
// Collectives inside a captured graph are not recorded separately: each replay is one record.
// Messages are not recorded. Thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/collectives/checked.h"
#include "dist/transports/transport.h"

namespace rondo::dist {

struct FlightRecord {
  Signature signature;  // which collective
  std::string about;    // which data: "bucket 2 of 8 (fc.weight … conv1.weight)"; or empty
  std::string group;    // which ranks: "{1, 3}"; empty: all
  Clock::time_point issued{}, started{}, finished{};
  enum State : std::uint8_t { waiting, running, done, failed } state = waiting;
};

class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 256);
  /// A recorder for a group's collectives, which are kept among all records of this one.
  std::shared_ptr<FlightRecorder> of_group(std::string group) const;

  /// Adds a record; returns its number, which the functions below take. `begins`: it begins at
  /// once.
  std::uint64_t issued(const Signature& signature, const std::string& about, bool begins = false);
  void started(std::uint64_t record, Clock::time_point at = Clock::now());
  void finished(std::uint64_t record, bool is_well, Clock::time_point at = Clock::now());

  /// Oldest first. A group's recorder returns only the group's records.
  std::vector<FlightRecord> records() const;
  /// One line for each record, with times in seconds before `now`.
  std::string text(Clock::time_point now = Clock::now()) const;
  /// Whether each new record now replaces the oldest one.
  bool is_full() const;
  /// Returns the capacity before.
  std::size_t set_capacity(std::size_t capacity);

 private:
  struct Records;

  std::shared_ptr<Records> all_;  // also those of groups
  std::string group_;
};

}  // namespace rondo::dist
