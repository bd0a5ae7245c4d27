#include "dist/flight_recorder.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace rondo::dist {

std::uint64_t FlightRecorder::issued(const Signature& signature, const std::string& about,
                                     bool begins) {
  std::lock_guard lock(mutex_);
  if (records_.size() >= capacity_) {
    records_.pop_front();
    ++first_;
  }
  records_.push_back({.signature = signature, .about = about, .issued = Clock::now()});
  if (begins) {
    records_.back().started = records_.back().issued;
    records_.back().state = FlightRecord::running;
  }
  return first_ + records_.size() - 1;
}

/// Null when it has been pushed out by newer ones.
FlightRecord* FlightRecorder::find(std::uint64_t record) {
  return record < first_ || record - first_ >= records_.size() ? nullptr
                                                               : &records_[record - first_];
}

void FlightRecorder::started(std::uint64_t record) {
  std::lock_guard lock(mutex_);
  if (FlightRecord* found = find(record)) {
    found->started = Clock::now();
    found->state = FlightRecord::running;
  }
}

void FlightRecorder::finished(std::uint64_t record, bool is_well) {
  std::lock_guard lock(mutex_);
  if (FlightRecord* found = find(record)) {
    found->finished = Clock::now();
    found->state = is_well ? FlightRecord::done : FlightRecord::failed;
  }
}

std::vector<FlightRecord> FlightRecorder::records() const {
  std::lock_guard lock(mutex_);
  return {records_.begin(), records_.end()};
}

void FlightRecorder::set_capacity(std::size_t capacity) {
  std::lock_guard lock(mutex_);
  capacity_ = std::max<std::size_t>(capacity, 1);
  for (; records_.size() > capacity_; ++first_) records_.pop_front();
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
    out << ": issued " << ago(record.issued) << " s ago";
    if (record.state != FlightRecord::waiting && record.started != Clock::time_point{})
      out << ", begun " << ago(record.started) << " s ago";
    if (record.state >= FlightRecord::done) out << ", over " << ago(record.finished) << " s ago";
    out << ", " << states[record.state] << '\n';
  }
  return std::move(out).str();
}

}  // namespace rondo::dist
