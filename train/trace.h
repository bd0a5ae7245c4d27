#pragma once
// TimelineTrace: where the time of the training steps goes, on every rank. chrome://tracing and
// ui.perfetto.dev display the file that `write` creates.
//
//   train::TimelineTrace trace(*comm);
//   {
//     const train::TimelineTrace::Span span(&trace, "forward");
//     ...
//   }
//   trace.write("trace.json");
//
// Each rank is a process with these lanes: its computation and waiting; its collectives, from start
// to end, named by the bucket of gradients that they carry; and one for each group's collectives.
// Events that are above each other overlap. Ranks on different machines have different clocks;
// their times are converted to rank 0's clock, measured by the shortest of several round trips.
//
// On a GPU, spans show what the host did, which is mostly to put work into queues. Collectives have
// the times of the GPU's clock; a captured graph is shown as one event. For the ops in a span, see
// train/profiler.h.

#include <chrono>
#include <deque>
#include <exception>
#include <string>

#include "dist/collectives/communicator.h"

namespace rondo::train {

class TimelineTrace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Records the communicator's collectives from now on. The communicator must outlive the
  /// TimelineTrace. If an exception destroys the TimelineTrace before `write`, every rank that is
  /// informed of the failure writes its own events, including unfinished ones, to a file named
  /// `if_it_fails` plus its rank: trace.rank1.json. Empty: no file.
  explicit TimelineTrace(dist::Communicator& comm, std::string if_it_fails = {});
  ~TimelineTrace();
  TimelineTrace(const TimelineTrace&) = delete;
  TimelineTrace& operator=(const TimelineTrace&) = delete;

  /// Records the time from construction to destruction; with a null trace, nothing.
  class Span {
   public:
    Span(TimelineTrace* trace, const char* name)
        : trace_(trace),
          name_(name),
          begin_(trace != nullptr ? Clock::now() : Clock::time_point()) {}
    ~Span() {
      if (trace_ != nullptr) trace_->add(name_, begin_, Clock::now());
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    TimelineTrace* trace_;
    const char* name_;
    Clock::time_point begin_;
  };
  /// `name` must outlive the TimelineTrace.
  void add(const char* name, Clock::time_point begin, Clock::time_point end);

  /// Writes the events of all ranks in Chrome's trace format, whole or not at all. Collective.
  /// Throws IoError.
  void write(const std::string& path);

 private:
  // Each lane keeps only this many of its last spans: viewers become slow with more.
  static constexpr std::size_t most_spans = 200'000;
  struct Recorded {
    const char* name;
    Clock::time_point begin, end;
  };
  std::string events(bool with_unfinished) const;
  void write_own() const noexcept;  // for a run that fails
  void wait_for_collectives() const;

  dist::Communicator& comm_;
  Clock::time_point start_;
  std::chrono::nanoseconds offset_{0};  // to be added to get the time on rank 0's clock
  std::deque<Recorded> spans_;
  std::string if_it_fails_;
  std::size_t capacity_before_ = 0;              // of the recorder
  int exceptions_ = std::uncaught_exceptions();  // already in flight at construction
};

}  // namespace rondo::train
