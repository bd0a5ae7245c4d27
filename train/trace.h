#pragma once
// Trace: where the time of a training step goes, on every rank, as a picture: chrome://tracing and
// ui.perfetto.dev draw the file that `write` makes.
//
//   train::Trace trace(*comm);
//   {
//     const train::Trace::Span span(&trace, "forward");
//     ...
//   }
//   trace.write("trace.json");
//
// Each rank is a process with two lanes: what it computes and waits for, and its collectives, from
// when they began until they were over, named by the bucket of gradients that they carried. Overlap
// is what lies above each other. Ranks on several machines have clocks of their own; they are put
// on rank 0's by the shortest of several round trips.
//
// On a GPU spans are what the host did, which is mostly to put work into queues. Which ops a span's
// time goes to: train/profiler.h.

#include <chrono>
#include <deque>
#include <filesystem>
#include <string>

#include "dist/communicator.h"

namespace rondo::train {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Keeps the communicator's collectives from here on. It must outlive this.
  explicit Trace(dist::Communicator& comm);

  /// From its construction to its end; null: nothing.
  class Span {
   public:
    Span(Trace* trace, const char* name)
        : trace_(trace),
          name_(name),
          begin_(trace != nullptr ? Clock::now() : Clock::time_point()) {}
    ~Span() {
      if (trace_ != nullptr) trace_->add(name_, begin_, Clock::now());
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace* trace_;
    const char* name_;
    Clock::time_point begin_;
  };
  /// `name` must live as long as this.
  void add(const char* name, Clock::time_point begin, Clock::time_point end);

  /// Writes what all ranks have kept, in Chrome's trace format, whole or not at all. Collective.
  /// Throws IoError.
  void write(const std::filesystem::path& path);

 private:
  // Of each lane the last so many are kept: viewers choke on more.
  static constexpr std::size_t most_spans = 200'000;
  struct Recorded {
    const char* name;
    Clock::time_point begin, end;
  };
  std::string events() const;

  dist::Communicator& comm_;
  Clock::time_point start_;
  std::chrono::nanoseconds offset_{0};  // to be added for rank 0's clock
  std::deque<Recorded> spans_;
};

}  // namespace rondo::train
