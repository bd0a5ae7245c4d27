#include "dist/failure/flight_recorder.h"

#include <algorithm>
#include <deque>
#include <iomanip>
#include <iterator>
#include <mutex>
#include <sstream>
#include <utility>

namespace rondo::dist {

struct FlightRecorder::Records {
  std::mutex mutex;
  std::size_t capacity = 1;  // at least 1
  std::uint64_t first = 0;   // the number of the oldest record that is kept
  std::deque<FlightRecord> records;

  /// Null if newer records have replaced it.
  FlightRecord* find(std::uint64_t record) {
    return record < first || record - first >= records.size() ? nullptr : &records[record - first];
  }
};

FlightRecorder::FlightRecorder(std::size_t capacity) : all_(std::make_shared<Records>()) {
  set_capacity(capacity);
}

std::shared_ptr<FlightRecorder> FlightRecorder::of_group(std::string group) const {
  auto recorder = std::make_shared<FlightRecorder>(*this);
  recorder->group_ = std::move(group);
  return recorder;
}

std::uint64_t FlightRecorder::issued(const Signature& signature, const std::string& about,
                                     bool begins) {
  std::lock_guard lock(all_->mutex);
  std::deque<FlightRecord>& records = all_->records;
  if (records.size() >= all_->capacity) {
    records.pop_front();
    ++all_->first;
  }
  records.push_back(
      {.signature = signature, .about = about, .group = group_, .issued = Clock::now()});
  if (begins) {
    records.back().started = records.back().issued;
    records.back().state = FlightRecord::running;
  }
  return all_->first + records.size() - 1;
}

void FlightRecorder::started(std::uint64_t record, Clock::time_point at) {
  std::lock_guard lock(all_->mutex);
  if (FlightRecord* found = all_->find(record)) {
    found->started = at;
    found->state = FlightRecord::running;
  }
}

void FlightRecorder::finished(std::uint64_t record, bool is_well, Clock::time_point at) {
  std::lock_guard lock(all_->mutex);
  if (FlightRecord* found = all_->find(record)) {
    found->finished = at;
    found->state = is_well ? FlightRecord::done : FlightRecord::failed;
  }
}

std::vector<FlightRecord> FlightRecorder::records() const {
  std::lock_guard lock(all_->mutex);
  std::vector<FlightRecord> found;
  std::ranges::copy_if(all_->records, std::back_inserter(found), [&](const FlightRecord& record) {
    return group_.empty() || record.group == group_;
  });
  return found;
}

std::size_t FlightRecorder::set_capacity(std::size_t capacity) {
  std::lock_guard lock(all_->mutex);
  const std::size_t before = std::exchange(all_->capacity, std::max<std::size_t>(capacity, 1));
  for (; all_->records.size() > all_->capacity; ++all_->first) all_->records.pop_front();
  return before;
}

bool FlightRecorder::is_full() const {
  std::lock_guard lock(all_->mutex);
  return all_->records.size() == all_->capacity;
}

std::string FlightRecorder::text(Clock::time_point now) const {
  static constexpr const char* states[] = {"not begun", "under way", "done", "failed"};
  std::ostringstream out;
  out << std::fixed << std::setprecision(6);
  const auto ago = [&](Clock::time_point at) {
    return std::chrono::duration<double>(now - at).count();
  };
  for (const FlightRecord& record : records()) {
    out << text_of(record.signature);
    if (!record.about.empty()) out << " of " << record.about;
    if (!record.group.empty()) out << " of group " << record.group;
    out << ": issued " << ago(record.issued) << " s ago";
    if (record.state != FlightRecord::waiting && record.started != Clock::time_point{})
      out << ", begun " << ago(record.started) << " s ago";
    if (record.state >= FlightRecord::done) out << ", over " << ago(record.finished) << " s ago";
    out << ", " << states[record.state] << '\n';
  }
  return std::move(out).str();
}

}  // namespace rondo::dist
